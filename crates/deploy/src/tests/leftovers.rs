//! What processes that come and go leave behind.

use super::ways::*;
use super::*;

/// Returns the memory of this process that is in the machine's, in KiB.
fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let figure = line.unwrap().split_whitespace().nth(1);
    figure.unwrap().parse().unwrap()
}

/// Returns the number of threads and of open files of this process.
fn held_by_this_process() -> usize {
    let count = |path| std::fs::read_dir(path).unwrap().count();
    count("/proc/self/fd") + count("/proc/self/task")
}

/// If this fails, a process that comes back again and again takes all descriptors or threads, its own
/// or the server's.
#[test]
fn a_thousand_connections_leave_no_descriptor_and_no_thread() {
    const TIMES: usize = 1000;
    let held = Mutex::new([0; 2]);
    let (outcome, _) = served("training.rounds=1", |address| {
        thread::scope(|scope| {
            on_a_way(address, 10..30, usual, |number, device, server| {
                if number == 10 {
                    held.lock().unwrap()[0] = held_by_this_process();
                }
                if number < TIMES {
                    return carry_until(&device, &server, |head| head == Head::Welcome);
                }
                held.lock().unwrap()[1] = held_by_this_process();
                scope.spawn(move || device_process(address, 0..10).unwrap());
                carry(device, server);
            });
        });
    });
    assert!(outcome.stopped_by.is_none());
    let [before, after] = *held.lock().unwrap();
    // Other tests run beside this one, and have some of them.
    assert!(after < before + TIMES / 2, "{before} before, {after} after");
}

/// If this fails, the server keeps something of every process that was killed: memory, a descriptor or
/// a thread. A run of months then ends by it.
#[test]
#[ignore = "alone: cargo test --release -p fedrecsim-deploy thousand_times -- --ignored --nocapture"]
fn a_process_that_is_killed_a_thousand_times_leaves_nothing_behind() {
    const TIMES: usize = 1000;
    // The first ones take what is kept for later ones.
    const FIRST: usize = 100;
    let held = Mutex::new([(0, 0); 2]);
    let note = |place: usize| {
        let now = (resident_kib(), held_by_this_process());
        held.lock().unwrap()[place] = now;
    };
    // Each kill costs a round the users of the process.
    // The usual rates diverge in so many rounds of so few users.
    let text = format!(
        "training.rounds={}\nmethod.fedmf.learning_rate_items=1",
        TIMES + 2
    );
    let (outcome, heard) = served(&text, |address| {
        thread::scope(|scope| {
            scope.spawn(move || device_process(address, 0..10).unwrap());
            let killed = |address: SocketAddr, users: Range<u32>| {
                for _ in 0..TIMES {
                    unlucky(address, users.clone());
                }
                usual(address, users);
            };
            on_a_way(address, 10..30, killed, |number, device, server| {
                match number {
                    FIRST => note(0),
                    TIMES => note(1),
                    _ => {}
                }
                match number < TIMES {
                    true => {
                        carry_until(&device, &server, |head| matches!(head, Head::Invite { .. }))
                    }
                    false => carry(device, server),
                }
            });
        });
    });
    assert!(outcome.stopped_by.is_none());
    assert_eq!(heard.begun_anew.len(), TIMES);
    let [before, after] = *held.lock().unwrap();
    println!(
        "KiB, and descriptors and threads: {before:?} after {FIRST} kills, {after:?} after {TIMES}"
    );
    assert!(after.0 < before.0 + (8 << 10), "memory");
    assert!(after.1 <= before.1 + 8, "descriptors or threads");
}
