//! A real Chromium, driven through its own chromedriver by the commands of the W3C's WebDriver protocol. It
//! resolves no host except loopback.

mod running;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use serde_json::{Value, json};

use self::running::Running;
use crate::wait::wait_ok;

/// The key under which the protocol gives the id of an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A key that types no character. It can be part of a text to type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Key {
    Tab,
    Enter,
    Shift,
    Control,
    Escape,
    End,
    Home,
    Left,
    Up,
    Right,
    Down,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tab => "\u{e004}",
            Self::Enter => "\u{e007}",
            Self::Shift => "\u{e008}",
            Self::Control => "\u{e009}",
            Self::Escape => "\u{e00c}",
            Self::End => "\u{e010}",
            Self::Home => "\u{e011}",
            Self::Left => "\u{e012}",
            Self::Up => "\u{e013}",
            Self::Right => "\u{e014}",
            Self::Down => "\u{e015}",
        })
    }
}

/// A browser with one window, as if it had just been started. Its methods return when the browser has finished the
/// action.
#[derive(Debug)]
pub struct Browser {
    /// `Some` until the drop.
    running: Option<Running>,
    /// The origins of the addresses that were opened.
    opened: RefCell<BTreeSet<String>>,
}

impl Browser {
    /// Starts a browser, or takes one that another test has left; `None`, and a recorded skip, if Chromium or
    /// chromedriver is not installed.
    pub fn start() -> Option<Self> {
        Running::get().map(|running| Self { running: Some(running), opened: RefCell::default() })
    }

    /// Opens an address and waits until it is loaded.
    pub fn open(&self, url: &str) {
        let origin: Vec<&str> = url.splitn(4, '/').take(3).collect();
        self.opened.borrow_mut().insert(origin.join("/"));
        self.command("url", &json!({"url": url}));
    }

    /// The current address.
    pub fn url(&self) -> String {
        self.script("return location.href").as_str().unwrap().to_owned()
    }

    /// Goes back in the history.
    pub fn back(&self) {
        self.command("back", &json!({}));
    }

    /// Runs a script and returns its result. If that is a promise, returns the value to which it resolves.
    pub fn script(&self, script: &str) -> Value {
        self.command("execute/sync", &json!({"script": script, "args": []}))
    }

    /// Waits until a condition in JavaScript is true.
    pub fn wait(&self, what: &str, condition: &str) {
        let body = json!({"script": format!("return {condition}"), "args": []});
        wait_ok(what, || match self.try_command("execute/sync", &body) {
            Ok(Value::Bool(true)) => Ok(()),
            Ok(other) => Err(format!("{condition} is {other}; {}", self.shown())),
            Err(error) => Err(error),
        });
    }

    /// Waits until an element that matches the selector contains the text.
    pub fn wait_text(&self, selector: &str, text: &str) {
        let (quoted, wanted) = (json!(selector), json!(text));
        let all = format!("[...document.querySelectorAll({quoted})]");
        let found = format!("{all}.some((e) => e.textContent.includes({wanted}))");
        self.wait(&format!("{selector} with the text {text:?}"), &found);
    }

    /// Clicks an element, when it exists and nothing covers it.
    pub fn click(&self, selector: &str) {
        wait_ok(&format!("a click on {selector}"), || {
            let element = self.find(selector)?;
            self.try_command(&format!("element/{element}/click"), &json!({}))
        });
    }

    /// Types a text into an element.
    pub fn type_into(&self, selector: &str, text: &str) {
        wait_ok(&format!("typing into {selector}"), || {
            let element = self.find(selector)?;
            self.try_command(&format!("element/{element}/value"), &json!({"text": text}))
        });
    }

    /// Clicks the button with this text inside the element that the selector finds.
    pub fn click_button(&self, selector: &str, text: &str) {
        self.script(&format!(
            "[...document.querySelectorAll({:?})].find((button) => button.textContent === {text:?}).click()",
            format!("{selector} button")
        ));
    }

    /// Presses keys in the element with the focus: the characters of a text, which may contain a [`Key`].
    pub fn press(&self, keys: &str) {
        let presses: Vec<Value> = keys.chars().flat_map(|key| [down(key), up(key)]).collect();
        self.actions(&json!([{"type": "key", "id": "keys", "actions": presses}]));
    }

    /// Presses keys while another one is held.
    pub fn press_with(&self, held: Key, keys: &str) {
        let held = held.to_string().chars().next().unwrap();
        let mut presses = vec![down(held)];
        presses.extend(keys.chars().flat_map(|key| [down(key), up(key)]));
        presses.push(up(held));
        self.actions(&json!([{"type": "key", "id": "keys", "actions": presses}]));
    }

    /// Presses the mouse on a point of an element, moves it to the right, and releases it.
    pub fn drag(&self, selector: &str, from: i64, by: i64) {
        let (x, y) = self.corner(selector);
        let y = y + 60;
        self.mouse(&[
            to(x + from, y),
            json!({"type": "pointerDown", "button": 0}),
            to(x + from + by / 2, y),
            to(x + from + by, y),
            json!({"type": "pointerUp", "button": 0}),
        ]);
    }

    /// Moves the mouse to a point of an element.
    pub fn hover(&self, selector: &str, x: i64, y: i64) {
        let (left, top) = self.corner(selector);
        self.mouse(&[to(left + x - 2, top + y), to(left + x, top + y)]);
    }

    /// Touches an element with two fingers, `apart` pixels from each other around a point, and moves them
    /// until they are `then` pixels apart.
    pub fn pinch(&self, selector: &str, x: i64, apart: i64, then: i64) {
        let (left, top) = self.corner(selector);
        let touch = |kind: &str, apart: Option<i64>| {
            let at = |side: i64, apart: i64| json!({"x": left + x + side * apart / 2, "y": top + 60, "id": side + 1});
            let points: Vec<Value> =
                apart.into_iter().flat_map(|apart| [at(-1, apart), at(1, apart)]).collect();
            self.devtools("Input.dispatchTouchEvent", &json!({"type": kind, "touchPoints": points}));
        };
        self.devtools("Emulation.setTouchEmulationEnabled", &json!({"enabled": true, "maxTouchPoints": 2}));
        touch("touchStart", Some(apart));
        for step in 1..=5 {
            touch("touchMove", Some(apart + (then - apart) * step / 5));
        }
        touch("touchEnd", None);
        self.devtools("Emulation.setTouchEmulationEnabled", &json!({"enabled": false}));
    }

    /// Sets the size of the page in pixels, and the colour scheme (dark or light) of the system.
    pub fn look(&self, width: u32, height: u32, dark: bool) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", &size);
        let scheme = if dark { "dark" } else { "light" };
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.devtools("Emulation.setEmulatedMedia", &media);
    }

    /// Runs a script in each page that is opened from now on, before the page's own scripts.
    pub fn run_in_pages(&self, script: &str) {
        self.devtools("Page.addScriptToEvaluateOnNewDocument", &json!({"source": script}));
    }

    /// Clears the browser's cache, so that pages load all their files again.
    pub fn forget_files(&self) {
        self.devtools("Network.enable", &json!({}));
        self.devtools("Network.clearBrowserCache", &json!({}));
    }

    /// Makes the network slow: milliseconds until an answer begins, and bits per second.
    pub fn slow_network(&self, delay: u32, bits: u32) {
        let bytes = bits / 8;
        let network = json!({
            "offline": false, "latency": delay, "downloadThroughput": bytes, "uploadThroughput": bytes
        });
        self.devtools("Network.enable", &json!({}));
        self.devtools("Network.emulateNetworkConditions", &network);
    }

    /// Bytes of memory that the page's scripts use after a garbage collection.
    pub fn script_memory(&self) -> f64 {
        self.devtools("HeapProfiler.enable", &json!({}));
        // The first collection may keep memory that finalizers of objects still refer to.
        for _ in 0..2 {
            self.devtools("HeapProfiler.collectGarbage", &json!({}));
        }
        let used = self.devtools("Runtime.getHeapUsage", &json!({}));
        // Objects, the document's nodes, and the contents of arrays.
        ["usedSize", "embedderHeapUsedSize", "backingStorageSize"]
            .iter()
            .map(|part| used[part].as_f64().unwrap())
            .sum()
    }

    /// Writes a picture of the page, a PNG in base64, to the directory `PLUMBAGO_SCREENSHOTS`, if that is set.
    pub fn picture(&self, name: &str) {
        let Some(directory) = std::env::var_os("PLUMBAGO_SCREENSHOTS") else { return };
        let path = Path::new(&directory).join(name);
        let shot = self.running().ask("GET", "screenshot", &json!({}));
        std::fs::write(path.with_extension("base64"), shot.unwrap().as_str().unwrap()).unwrap();
    }

    /// Panics if the browser has logged an error since the last call: an error of a script, a violation of the
    /// content security policy, or a response with an error status. Errors that contain one of the `expected` texts
    /// are ignored.
    pub fn check_log(&self, expected: &[&str]) {
        let entries = self.command("se/log", &json!({"type": "browser"}));
        let is_bad = |entry: &&Value| {
            let text = entry["message"].as_str().unwrap();
            let counts = entry["level"] == "SEVERE" || text.contains("Content Security");
            counts && !expected.iter().any(|part| text.contains(part))
        };
        let bad: Vec<&Value> = entries.as_array().unwrap().iter().filter(is_bad).collect();
        assert!(bad.is_empty(), "the browser's console: {bad:#?}");
    }

    /// The text of the page, for messages.
    fn shown(&self) -> String {
        let body = json!({"script": "return document.body.innerText.slice(0, 1500)", "args": []});
        self.try_command("execute/sync", &body).map_or_else(|error| error, |text| text.to_string())
    }

    fn find(&self, selector: &str) -> Result<String, String> {
        let found = self.try_command("element", &json!({"using": "css selector", "value": selector}))?;
        Ok(found[ELEMENT].as_str().unwrap().to_owned())
    }

    fn corner(&self, selector: &str) -> (i64, i64) {
        self.wait(selector, &format!("document.querySelector({}) !== null", json!(selector)));
        let place = self.script(&format!(
            "const r = document.querySelector({}).getBoundingClientRect(); return [r.left, r.top]",
            json!(selector)
        ));
        let at = |number: usize| place[number].as_f64().unwrap() as i64;
        (at(0), at(1))
    }

    fn mouse(&self, actions: &[Value]) {
        let pointer = json!({"pointerType": "mouse"});
        self.actions(&json!([{"type": "pointer", "id": "mouse", "parameters": pointer, "actions": actions}]));
    }

    fn actions(&self, actions: &Value) {
        self.command("actions", &json!({"actions": actions}));
    }

    /// Runs a command of the DevTools protocol.
    fn devtools(&self, name: &str, parameters: &Value) -> Value {
        self.running().devtools(name, parameters).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn command(&self, path: &str, body: &Value) -> Value {
        self.try_command(path, body).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn try_command(&self, path: &str, body: &Value) -> Result<Value, String> {
        self.running().post(path, body)
    }

    fn running(&self) -> &Running {
        self.running.as_ref().unwrap()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // After a failure the browser may be in any state.
        if let Some(running) = self.running.take().filter(|_| !std::thread::panicking()) {
            running.give_back(self.opened.get_mut());
        }
    }
}

fn down(key: char) -> Value {
    json!({"type": "keyDown", "value": key.to_string()})
}

fn up(key: char) -> Value {
    json!({"type": "keyUp", "value": key.to_string()})
}

fn to(x: i64, y: i64) -> Value {
    json!({"type": "pointerMove", "duration": 40, "x": x, "y": y})
}
