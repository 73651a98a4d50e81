//! KairosDB's REST protocol.
