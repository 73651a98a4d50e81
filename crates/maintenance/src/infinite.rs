//! Values in JSON, which has no infinity: infinite ones are the texts `inf` and `-inf`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Number {
    Finite(f64),
    Text(String),
}

impl Number {
    fn new(value: f64) -> Self {
        if value.is_finite() { Self::Finite(value) } else { Self::Text(value.to_string()) }
    }

    fn value<E: serde::de::Error>(self) -> Result<f64, E> {
        match self {
            Self::Finite(value) => Ok(value),
            Self::Text(text) => text.parse().map_err(|_| E::custom(format!("{text:?} is not a number"))),
        }
    }
}

pub(crate) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    Number::new(*value).serialize(serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Number::deserialize(deserializer)?.value()
}

/// Reads and writes the values of points in the same form.
pub(crate) mod points {
    use super::{Deserialize, Deserializer, Number, Serializer};

    type Points = Vec<(i64, f64, Option<f64>)>;

    pub(crate) fn serialize<S: Serializer>(
        points: &[(i64, f64, Option<f64>)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let point =
            |&(timestamp, value, count): &(i64, f64, Option<f64>)| (timestamp, Number::new(value), count);
        serializer.collect_seq(points.iter().map(point))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Points, D::Error> {
        let points = Vec::<(i64, Number, Option<f64>)>::deserialize(deserializer)?;
        points
            .into_iter()
            .map(|(timestamp, value, count)| Ok((timestamp, value.value::<D::Error>()?, count)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Row {
        #[serde(with = "super")]
        value: f64,
        #[serde(with = "super::points")]
        points: Vec<(i64, f64, Option<f64>)>,
    }

    #[test]
    fn infinite_values_pass_through_json() {
        let points = vec![(60, 1.0, None), (120, f64::INFINITY, Some(2.0)), (180, f64::NEG_INFINITY, None)];
        let row = Row { value: f64::INFINITY, points };
        let text = serde_json::to_string(&row).unwrap();
        assert!(text.contains(r#"[[60,1.0,null],[120,"inf",2.0],[180,"-inf",null]]"#), "{text}");
        assert_eq!(serde_json::from_str::<Row>(&text).unwrap(), row);
        let finite = text.replace(r#""value":"inf""#, r#""value":5"#);
        assert_eq!(serde_json::from_str::<Row>(&finite).unwrap().value, 5.0);
        assert!(serde_json::from_str::<Row>(&text.replace("inf", "much")).is_err());
    }
}
