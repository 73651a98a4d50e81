//! The bytes of KairosDB's tables: row keys, columns, values.
