//! What the methods accept, and when their arguments are dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::executor::block_on;
use plumbago_boxed_futures::boxed_futures;

#[boxed_futures]
trait Shapes: Send + Sync {
    async fn nothing(&self);
    async fn longest(&self, words: &[&str], or: Option<&str>) -> usize;
    async fn first(&self) -> Option<&str>;
    async fn parsed(&self, text: &str) -> Result<i64, Box<dyn std::error::Error + Send + Sync>>;
    async fn counted(&self, (from, to): (u32, u32), mut sum: u32) -> u32 {
        for number in from..to {
            sum += number;
        }
        sum
    }
    async fn called(&self, with: Box<dyn Fn(&str) -> usize + Send + Sync>) -> usize;
    async fn held(self: Arc<Self>, _guard: Guard) -> usize;
    fn plain(&self) -> u8 {
        7
    }
}

struct Guard(Arc<AtomicUsize>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

struct Words(Vec<String>);

#[boxed_futures]
impl Shapes for Words {
    async fn nothing(&self) {}

    async fn longest(&self, words: &[&str], or: Option<&str>) -> usize {
        let own = self.0.iter().map(String::as_str);
        own.chain(words.iter().copied()).chain(or).map(str::len).max().unwrap_or_default()
    }

    async fn first(&self) -> Option<&str> {
        self.0.first().map(String::as_str)
    }

    async fn parsed(&self, text: &str) -> Result<i64, Box<dyn std::error::Error + Send + Sync>> {
        if text.is_empty() {
            return Ok(0);
        }
        Ok(text.parse::<i64>()?)
    }

    async fn called(&self, with: Box<dyn Fn(&str) -> usize + Send + Sync>) -> usize {
        with("four")
    }

    async fn held(self: Arc<Self>, _guard: Guard) -> usize {
        self.0.len()
    }
}

fn words() -> Arc<dyn Shapes> {
    Arc::new(Words(vec!["one".into(), "three".into()]))
}

#[test]
fn arguments_and_results_of_all_forms_pass() {
    let words = words();
    block_on(words.nothing());
    assert_eq!(block_on(words.longest(&["seventeen"], None)), 9);
    assert_eq!(block_on(words.longest(&[], Some("eleven"))), 6);
    assert_eq!(block_on(words.first()), Some("one"));
    assert_eq!(block_on(words.parsed("")).unwrap(), 0);
    assert_eq!(block_on(words.parsed("-3")).unwrap(), -3);
    assert!(block_on(words.parsed("x")).unwrap_err().to_string().contains("invalid digit"));
    assert_eq!(block_on(words.counted((1, 4), 10)), 16);
    assert_eq!(block_on(words.called(Box::new(str::len))), 4);
    assert_eq!(words.plain(), 7);
}

#[test]
fn an_argument_that_the_body_ignores_lives_as_long_as_the_future() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let future = words().held(Guard(Arc::clone(&dropped)));
    assert_eq!(dropped.load(Ordering::Relaxed), 0);
    assert_eq!(block_on(future), 2);
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
}
