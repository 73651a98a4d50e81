//! Black-box tests of the built binary against real senders and readers.
