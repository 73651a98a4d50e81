//! Graphite's `graphTemplates.conf`: named sets of colours.

use crate::color::Color;

/// Colours that are used unless the request specifies others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Template {
    pub(crate) background: &'static str,
    pub(crate) foreground: &'static str,
    pub(crate) major: &'static str,
    pub(crate) minor: &'static str,
    pub(crate) lines: &'static str,
}

const DEFAULT: Template = Template {
    background: "white",
    foreground: "black",
    major: "rose",
    minor: "grey",
    lines: "blue,green,red,purple,brown,yellow,aqua,grey,magenta,pink,gold,rose",
};

const SOLARIZED: &str = "268bd2aa,859900aa,dc322faa,d33682aa,db4b16aa,b58900aa,2aa198aa,6c71c4aa";

impl Template {
    /// The template with this name. For unknown names this is the default template.
    pub(crate) fn named(name: &str) -> Self {
        let lines = |lines| Self { lines, ..DEFAULT };
        match name {
            "classic" => Self { background: "black", foreground: "white", major: "white", ..DEFAULT },
            "noc" => Self {
                lines: "blue,green,red,yellow,purple,brown,aqua,grey,magenta,pink,gold,rose",
                ..Self::named("classic")
            },
            "summary" => Self { background: "black", ..lines("6666ff,66ff66,ff6666") },
            "alphas" => Self { major: "grey", minor: "rose", ..lines("00ff00aa,ff000077,00337799") },
            "solarized-light" => Self {
                background: "fdf6e3",
                foreground: "657b83",
                major: "073642",
                minor: "586e75",
                lines: SOLARIZED,
            },
            "solarized-dark" => Self {
                background: "002b36",
                foreground: "839496",
                major: "fdf6e3",
                minor: "eee8d5",
                lines: SOLARIZED,
            },
            "grafana" => {
                lines("7eb26d,eab839,6ed0e0,ef843c,e24d42,1f78c1,ba43a9,705da0,508642,cca300,447ebc")
            }
            "ocean1" => lines("f7fcf0,e0f3db,ccebc5,a8ddb5,7bccc4,4eb3d3,2b8cbe,0868ac,084081"),
            "ocean2" => lines("084081,0868ac,2b8cbe,4eb3d3,7bccc4,a8ddb5,ccebc5,e0f3db,f7fcf0"),
            "forest1" => lines("f7fcf5,e5f5e0,c7e9c0,a1d99b,74c476,41ab5d,238b45,005a32"),
            "forest2" => lines("005a32,238b45,41ab5d,74c476,a1d99b,c7e9c0,e5f5e0,f7fcf5"),
            "sunset1" => lines("fff5eb,fee6ce,fdd0a2,fdae6b,fd8d3c,f16913,d94801,8c2d04"),
            "sunset2" => lines("8c2d04,d94801,f16913,fd8d3c,fdae6b,fdd0a2,fee6ce,fff5eb"),
            "moonlight1" => lines("fcfbfd,efedf5,dadaeb,bcbddc,9e9ac8,807dba,6a51a3,4a1486"),
            "moonlight2" => lines("4a1486,6a51a3,807dba,9e9ac8,bcbddc,dadaeb,efedf5,fcfbfd"),
            "lava1" => lines("fff5f0,fee0d2,fcbba1,fc9272,fb6a4a,ef3b2c,cb181d,99000d"),
            "lava2" => lines("99000d,cb181d,ef3b2c,fb6a4a,fc9272,fcbba1,fee0d2,fff5f0"),
            _ => DEFAULT,
        }
    }

    /// The colours for series, used in turn.
    pub(crate) fn line_colors(&self) -> Vec<Color> {
        self.lines.split(',').filter_map(|name| Color::parse(name).ok()).collect()
    }
}
