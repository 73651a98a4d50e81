//! The credentials of the operator: `admin.token`, and the secret of the data directory. The admin port asks for them,
//! and the API's port accepts them instead of a password.

use std::path::PathBuf;

use hyper::header::{AUTHORIZATION, HeaderMap};
use subtle::ConstantTimeEq;

/// A secret in a file on this machine. Only those who can read the file know the secret.
#[derive(Debug, Clone)]
pub struct AdminSecret {
    /// The content of the file.
    pub value: String,
    /// The path of the file, for messages.
    pub file: PathBuf,
}

/// The credentials that a request can send.
#[derive(Debug)]
pub(crate) struct Access {
    /// `admin.token`; empty if there is none.
    pub(crate) token: String,
    pub(crate) secret: AdminSecret,
}

impl Access {
    pub(crate) fn new(token: &str, secret: AdminSecret) -> Self {
        Self { token: token.to_owned(), secret }
    }

    /// Whether the request's headers contain the token or the secret.
    pub(crate) fn is_known(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(AUTHORIZATION).and_then(|value| value.as_bytes().split_at_checked(7));
        let Some((scheme, given)) = given else { return false };
        let is = |known: &str| !known.is_empty() && bool::from(given.ct_eq(known.as_bytes()));
        scheme.eq_ignore_ascii_case(b"bearer ") && (is(&self.token) | is(&self.secret.value))
    }
}
