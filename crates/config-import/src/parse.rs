//! Parses values as the other programs write them.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// Parses a switch as Python's `ConfigParser.getboolean` does.
pub(crate) fn flag(text: &str) -> Option<bool> {
    match text.trim().to_lowercase().as_str() {
        "1" | "yes" | "true" | "on" => Some(true),
        "0" | "no" | "false" | "off" => Some(false),
        _ => None,
    }
}

/// A whole number, which may be written as a float. `Some(None)` means carbon's `inf`.
pub(crate) fn number_or_inf(text: &str) -> Option<Option<i64>> {
    let text = text.trim();
    if let Ok(number) = text.parse::<i64>() {
        return (number >= 0).then_some(Some(number));
    }
    match text.parse::<f64>() {
        Ok(number) if number == f64::INFINITY => Some(None),
        Ok(number) if (0.0..9e15).contains(&number) && number.fract() == 0.0 => Some(Some(number as i64)),
        _ => None,
    }
}

/// Converts a number of seconds, with or without a fraction, to a period of Plumbago.
pub(crate) fn seconds(text: &str) -> Option<String> {
    let seconds: f64 = text.trim().parse().ok()?;
    (seconds.is_finite() && (0.0..1e9).contains(&seconds)).then(|| period(Duration::from_secs_f64(seconds)))
}

/// A duration of Go: `1m0s`, `1.5h`, `200ms`.
pub(crate) fn go_duration(text: &str) -> Option<String> {
    let mut rest = text.trim();
    if rest == "0" {
        return Some(period(Duration::ZERO));
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let unit = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let seconds = match &rest[..unit] {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" | "μs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        let part = Duration::try_from_secs_f64(number * seconds).ok()?;
        total = total.checked_add(part)?;
        rest = &rest[unit..];
    }
    (!text.trim().is_empty()).then(|| period(total))
}

/// Writes a period in the largest unit that makes it a whole number. Less than a millisecond becomes one
/// millisecond.
fn period(duration: Duration) -> String {
    let ms = match duration.as_millis() {
        0 if !duration.is_zero() => 1,
        ms => ms,
    };
    for (unit, length) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000)] {
        if ms > 0 && ms % length == 0 {
            return format!("{}{unit}", ms / length);
        }
    }
    match ms % 1000 {
        0 => format!("{}s", ms / 1000),
        _ => format!("{ms}ms"),
    }
}

/// Makes an address to listen on. An empty host means all addresses of the machine.
pub(crate) fn listen(host: &str, port: u16) -> Result<String, String> {
    let host = host.trim().trim_start_matches('[').trim_end_matches(']');
    let address = match host {
        "" => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        host => host.parse().map_err(|_| {
            format!("{host:?} is a name; write the address of the interface on which to listen")
        })?,
    };
    Ok(std::net::SocketAddr::new(address, port).to_string())
}

/// Parses a host with a port: `host:port`, `[v6]:port`, or only `:port`.
pub(crate) fn host_port(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.trim().rsplit_once(':')?;
    Some((host.trim_start_matches('[').trim_end_matches(']'), port.parse().ok()?))
}

/// Writes `host:port`, with brackets around an IPv6 address.
pub(crate) fn joined(host: &str, port: u16) -> String {
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

/// Writes a number of bytes as a size of Plumbago.
pub(crate) fn bytes(count: i64) -> String {
    for (unit, length) in [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
        if count > 0 && count % length == 0 {
            return format!("{}{unit}", count / length);
        }
    }
    format!("{count}B")
}

/// The items of a comma-separated list.
pub(crate) fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split([',', '\n']).map(str::trim).filter(|item| !item.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_keep_their_length() {
        for (go, ours) in
            [("1m0s", "1m"), ("1.5h", "90m"), ("200ms", "200ms"), ("1h1s", "3601s"), ("48h", "2d")]
        {
            assert_eq!(go_duration(go).as_deref(), Some(ours), "{go}");
        }
        for wrong in ["", "5", "1x", "m", "-1s", "1e999h"] {
            assert_eq!(go_duration(wrong), None, "{wrong}");
        }
        assert_eq!(seconds("10.0").as_deref(), Some("10s"));
        assert_eq!(seconds("0.25").as_deref(), Some("250ms"));
        assert_eq!(seconds("inf"), None);
    }

    #[test]
    fn addresses_are_those_of_the_machine() {
        assert_eq!(listen("", 2003).as_deref(), Ok("0.0.0.0:2003"));
        assert_eq!(listen("::", 2003).as_deref(), Ok("[::]:2003"));
        assert_eq!(listen("[::1]", 2003).as_deref(), Ok("[::1]:2003"));
        assert!(listen("graphite.example", 2003).is_err());
        assert_eq!(host_port(":2003"), Some(("", 2003)));
        assert_eq!(host_port("[::1]:7"), Some(("::1", 7)));
        assert_eq!(host_port("2003"), None);
    }
}
