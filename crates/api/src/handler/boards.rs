//! `/plumbago/boards`: saved views of the page, kept as files in a directory. The files are read again for
//! each request.

use std::fs;
use std::io;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::state::Api;

/// Maximum number of boards that are listed.
const BOARDS_MAX: usize = 500;
/// Longest board, in bytes.
const BYTES_MAX: u64 = 256 << 10;

/// Answers a request for all boards: `{"boards": [{"name", "text"}], "left_out": 0}`, ordered by name. A file
/// that cannot be read has `error` in place of `text`. `left_out` counts the boards after the first
/// [`BOARDS_MAX`].
pub(super) async fn boards(api: &Api) -> Result<Response, ApiError> {
    let Some(directory) = api.boards.clone() else { return Ok(Json(answer(Vec::new(), 0)).into_response()) };
    let read = tokio::task::spawn_blocking(move || list(&directory)).await;
    let failed = |reason: String| ApiError::Unavailable(format!("the boards cannot be read: {reason}"));
    let boards = read.map_err(|error| failed(error.to_string()))?;
    Ok(Json(boards.map_err(|error| failed(error.to_string()))?).into_response())
}

fn list(directory: &Path) -> io::Result<Value> {
    let mut files: Vec<(String, PathBuf)> = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        // Skips hidden files and backups, which editors keep beside the files that they change.
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let is_board = path.is_file() && !name.starts_with('.') && !name.ends_with('~');
        let stem = name.strip_suffix(".txt").unwrap_or(&name).to_owned();
        if is_board {
            files.push((stem, path));
        }
    }
    files.sort();
    let left_out = files.len().saturating_sub(BOARDS_MAX);
    files.truncate(BOARDS_MAX);
    let board = |(name, path): &(String, PathBuf)| match text(path) {
        Ok(text) => json!({"name": name, "text": text}),
        Err(error) => json!({"name": name, "error": error.to_string()}),
    };
    Ok(answer(files.iter().map(board).collect(), left_out))
}

fn answer(boards: Vec<Value>, left_out: usize) -> Value {
    json!({"boards": boards, "left_out": left_out})
}

fn text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > BYTES_MAX {
        return Err(io::Error::other(format!("it is longer than {BYTES_MAX} bytes")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boards_are_the_files_of_the_directory() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| fs::write(directory.path().join(name), bytes).unwrap();
        write("web.txt", b"target=a\n");
        write("db", b"target=b");
        write(".web.txt.swp", b"");
        write("web.txt~", b"");
        write("binary", b"\xff");
        write("large", &vec![b'x'; BYTES_MAX as usize + 1]);
        fs::create_dir(directory.path().join("sub")).unwrap();
        let answer = list(directory.path()).unwrap();
        assert_eq!(answer["left_out"], json!(0));
        let boards = &answer["boards"];
        let names: Vec<&str> =
            boards.as_array().unwrap().iter().map(|board| board["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["binary", "db", "large", "web"]);
        assert_eq!(boards[3], json!({"name": "web", "text": "target=a\n"}));
        assert!(boards[0]["error"].as_str().unwrap().contains("UTF-8"));
        assert!(boards[2]["error"].as_str().unwrap().contains("longer than"));
        assert!(list(&directory.path().join("missing")).is_err());
    }

    #[test]
    fn boards_that_are_not_listed_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        for number in 0..BOARDS_MAX + 2 {
            fs::write(directory.path().join(format!("{number:04}")), b"target=a").unwrap();
        }
        let answer = list(directory.path()).unwrap();
        let boards = answer["boards"].as_array().unwrap();
        assert_eq!((boards.len(), &boards[BOARDS_MAX - 1]["name"]), (BOARDS_MAX, &json!("0499")));
        assert_eq!(answer["left_out"], json!(2));
    }
}
