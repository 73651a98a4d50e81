//! OpenTSDB's lines and bodies.
