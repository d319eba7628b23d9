//! Bars that other work on the machine can spoil, but never make.

/// Runs `attempt` until it holds, three times at most. For what a machine that is busy with something
/// else can only ever worsen; what must not be, whatever the machine does, the attempt asserts itself.
///
/// # Panics
///
/// With what each attempt told, if none held.
pub fn in_one_of_three(mut attempt: impl FnMut() -> Result<(), String>) {
    let mut told = Vec::new();
    for _ in 0..3 {
        match attempt() {
            Ok(()) => return,
            Err(why) => told.push(why),
        }
    }
    panic!("none of three tries held:\n{}", told.join("\n"));
}
