//! Addresses of servers.

use percent_encoding::percent_decode_str;

/// Splits an address like `http://name:password@host/path` into the address without the user, and the user if
/// it has one.
///
/// # Errors
///
/// If the user is not UTF-8.
pub fn split_user(url: &str) -> Result<(String, Option<String>), String> {
    let Some((scheme, rest)) = url.split_once("://") else { return Ok((url.to_owned(), None)) };
    let authority = rest.split('/').next().unwrap_or_default();
    let Some((user, host)) = authority.rsplit_once('@') else { return Ok((url.to_owned(), None)) };
    let path = &rest[authority.len()..];
    let user = percent_decode_str(user)
        .decode_utf8()
        .map_err(|_| "the user in the address is not UTF-8".to_owned())?;
    Ok((format!("{scheme}://{host}{path}"), Some(user.into_owned())))
}

/// The address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) is_tls: bool,
    /// A name or an IP address, without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The prefix of the path of each request. It is empty, or begins with a slash and does not end with one.
    pub(crate) path: String,
}

impl Address {
    /// Parses an address like `http://host:8080/path`.
    ///
    /// # Errors
    /// The error says what is wrong with the address.
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        let (is_tls, rest) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => return Err(format!("{url:?} is not an address like http://graphite.example:8080")),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.contains('@') {
            return Err("the address contains a user; give the user with the option --user".to_owned());
        }
        if let Some(found) = path.chars().find(|c| "?#".contains(*c) || c.is_whitespace() || c.is_control()) {
            return Err(format!("the path of {url:?} has {found:?}; name the address without a query"));
        }
        let (host, port) = match authority.strip_prefix('[').map(|rest| rest.split_once(']')) {
            Some(Some((host, port))) => (host, port.strip_prefix(':')),
            Some(None) => return Err(format!("{url:?} has no closing bracket")),
            None => {
                let (host, port) = authority.split_once(':').map_or((authority, None), |(h, p)| (h, Some(p)));
                (host, port)
            }
        };
        if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(format!("{url:?} has no host"));
        }
        let port = match port {
            None if is_tls => 443,
            None => 80,
            Some(port) => port.parse().map_err(|_| format!("{port:?} in {url:?} is not a port"))?,
        };
        let path = path.trim_end_matches('/');
        let path = if path.is_empty() { String::new() } else { format!("/{path}") };
        Ok(Self { is_tls, host: host.to_owned(), port, path })
    }

    /// The value of the header `Host`.
    pub(crate) fn authority(&self) -> String {
        let is_default = self.port == if self.is_tls { 443 } else { 80 };
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if is_default { host } else { format!("{host}:{}", self.port) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_taken_out_of_addresses() {
        let split = |url: &str| split_user(url).unwrap();
        assert_eq!(split("http://a/b@c"), ("http://a/b@c".to_owned(), None));
        let expected = ("https://a:1/b".to_owned(), Some("me:p@ss".to_owned()));
        assert_eq!(split("https://me:p%40ss@a:1/b"), expected);
        assert_eq!(split("nothing").0, "nothing");
    }

    #[test]
    fn addresses_are_parsed() {
        let parsed = |url: &str| {
            let address = Address::parse(url).unwrap();
            (address.is_tls, address.host.clone(), address.port, address.path.clone(), address.authority())
        };
        let text = str::to_owned;
        assert_eq!(parsed("http://a"), (false, text("a"), 80, text(""), text("a")));
        assert_eq!(parsed("https://a/b/c/"), (true, text("a"), 443, text("/b/c"), text("a")));
        assert_eq!(parsed("http://[::1]:81/"), (false, text("::1"), 81, text(""), text("[::1]:81")));
        assert_eq!(parsed("http://a:443"), (false, text("a"), 443, text(""), text("a:443")));
        for wrong in
            ["a:80", "http://", "http://a:b", "http://u:p@a", "http://[::1", "http://a/?x", "ftp://a"]
        {
            assert!(Address::parse(wrong).is_err(), "{wrong}");
        }
    }
}
