//! Tests run side by side, but one that paces its load by the clock needs the machine to itself.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static MACHINE: RwLock<()> = RwLock::new(());

thread_local! {
    static HELD: RefCell<Weak<Turn>> = const { RefCell::new(Weak::new()) };
}

/// The right to use the machine, held while it lives.
#[derive(Debug)]
pub enum Turn {
    /// Together with other tests.
    Shared(RwLockReadGuard<'static, ()>),
    /// Alone.
    Alone(RwLockWriteGuard<'static, ()>),
}

/// Waits until no test runs that wants the machine alone. A thread that already holds a turn keeps it.
pub fn shared() -> Rc<Turn> {
    held(|| Turn::Shared(MACHINE.read().unwrap_or_else(PoisonError::into_inner)))
}

/// Waits until no other test runs. Must be the first turn that the thread takes.
pub fn alone() -> Rc<Turn> {
    held(|| Turn::Alone(MACHINE.write().unwrap_or_else(PoisonError::into_inner)))
}

fn held(take: impl FnOnce() -> Turn) -> Rc<Turn> {
    HELD.with(|held| {
        if let Some(turn) = held.borrow().upgrade() {
            return turn;
        }
        let turn = Rc::new(take());
        *held.borrow_mut() = Rc::downgrade(&turn);
        turn
    })
}
