//! Finds environment variables that look like settings but are not: `PLUMBAGO_API_LISTEN`, with one
//! underscore, sets nothing, which would otherwise go unnoticed.

use super::layers::Environment;
use super::problem::{Place, Problems};
use super::suggest;

/// The variable that names the configuration file; the command line reads it.
const FILE: &str = "PLUMBAGO_CONFIG";

/// Removes the variables that set no key, and reports them: as an error if the intended key is known, else as a
/// warning.
pub(super) fn sort_out(environment: &mut Environment, problems: &mut Problems) {
    let strays: Vec<(String, String)> =
        environment.extract_if(|name, _| !name.starts_with("PLUMBAGO__")).collect();
    for (name, value) in strays {
        let place = Place::Environment(name.clone());
        let rest = name.strip_prefix("PLUMBAGO_").unwrap_or(&name);
        match suggest::same_letters(rest) {
            _ if name == FILE || is_service_link(&name, &value) => {}
            Some(key) => problems.error(
                place,
                "",
                format!("has no effect; write {} with two underscores", suggest::variable(key)),
            ),
            None => problems.warning(
                place,
                "",
                "has no effect; a variable for `key` of `[section]` is called PLUMBAGO__SECTION__KEY, with \
                 two \
                 underscores",
            ),
        }
    }
}

/// Whether Kubernetes or Docker sets this variable for a service that is named `plumbago`.
fn is_service_link(name: &str, value: &str) -> bool {
    let ports = name.split("_PORT_").skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let link = name.ends_with("_PORT") && value.contains("://");
    ports || link || name.contains("_SERVICE_HOST") || name.contains("_SERVICE_PORT")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_set_nothing_are_reported() {
        let variables = [
            ("PLUMBAGO__API__LISTEN", "127.0.0.1:1"),
            ("PLUMBAGO_API_LISTEN", "127.0.0.1:1"),
            ("PLUMBAGO_DATA_DIR", "/d"),
            ("PLUMBAGO_VERSION", "1"),
            ("PLUMBAGO_CONFIG", "/etc/plumbago.toml"),
            ("PLUMBAGO_SERVICE_HOST", "10.0.0.1"),
            ("PLUMBAGO_PORT", "tcp://10.0.0.1:2003"),
            ("PLUMBAGO_PORT_2003_TCP_ADDR", "10.0.0.1"),
        ];
        let mut environment: Environment =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let mut problems = Problems::default();
        sort_out(&mut environment, &mut problems);
        assert_eq!(environment.keys().collect::<Vec<_>>(), ["PLUMBAGO__API__LISTEN"]);
        problems.sort();
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(lines.len(), 3, "{lines:#?}");
        for (line, part) in lines.iter().zip([
            "PLUMBAGO_API_LISTEN: error: has no effect; write PLUMBAGO__API__LISTEN",
            "PLUMBAGO_DATA_DIR: error: has no effect; write PLUMBAGO__DATA_DIR",
            "PLUMBAGO_VERSION: warning: has no effect",
        ]) {
            assert!(line.contains(part), "{line}\n{part}");
        }
    }
}
