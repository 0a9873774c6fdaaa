use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::checkpoints::{has_checkpoint, resume};
use crate::support::Workshop;

const OVERRIDES: [&str; 6] = [
    "--set",
    "training.rounds=300",
    "--set",
    "evaluation.every_rounds=100",
    "--set",
    "training.participation={ share = 0.5 }",
];

/// The processes of a run in real time, which end with the test.
struct Processes(Vec<Child>);

/// Returns the program, which says nothing.
fn program() -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_fedrecsim"));
    program.stdout(Stdio::null()).stderr(Stdio::null());
    program
}

/// Returns a server of the small scenario with these words, in real time and no slower.
fn server(workshop: &Workshop, address: &str, overrides: &[&str]) -> Command {
    let mut server = program();
    server.arg("serve").arg(workshop.small()).args(overrides);
    server.args([
        "--listen", address, "--shape", "none", "--pace", "none", "--out",
    ]);
    server.arg(workshop.report());
    server
}

/// Returns a process with these users, which has one thread.
fn process(address: &str, users: &str) -> Command {
    let mut process = program();
    process.args(["join", address, "--users", users, "--threads", "1"]);
    process
}

/// Returns an address that nobody has.
fn free_address() -> String {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap().to_string()
}

impl Processes {
    /// Starts a server and two processes with devices.
    fn start(workshop: &Workshop, address: &str) -> Self {
        let mut server = server(workshop, address, &OVERRIDES);
        server.args(["--checkpoint-every", "2", "--resume"]);
        let mut all = vec![server.spawn().unwrap()];
        for users in ["0..9", "10..39"] {
            let mut process = process(address, users);
            process.arg("--keep").arg(workshop.path(users));
            all.push(process.spawn().unwrap());
        }
        Self(all)
    }

    /// Waits until they have ended well.
    fn wait(&mut self) {
        for process in &mut self.0 {
            assert!(process.wait().unwrap().success());
        }
    }

    /// Kills them with SIGKILL, which no process can prepare for.
    fn kill(&mut self) {
        for process in &mut self.0 {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }
}

/// Returns the digest of the model and of what devices keep, from a report.
fn digest(report: &Path) -> String {
    let record = std::fs::read_to_string(report.join("run.json")).unwrap();
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    record["state_digest"].as_str().unwrap().to_owned()
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(|process| drop(process.kill()));
    }
}

/// If this fails, a server and its devices that are killed come to another model than they would have,
/// or do not find together again.
#[test]
fn a_run_that_is_killed_on_both_sides_ends_in_the_digest_of_the_simulation() {
    let workshop = Workshop::new();
    let address = free_address();
    let mut processes = Processes::start(&workshop, &address);
    while !has_checkpoint(&workshop.report()) {
        assert!(
            processes.0[0].try_wait().unwrap().is_none(),
            "the server has ended"
        );
        std::thread::yield_now();
    }
    processes.kill();
    assert!(
        !workshop.report().join("run.json").exists(),
        "they were killed too late for this test to mean anything"
    );
    let refused = resume(&workshop.report(), &workshop.path("")).unwrap_err();
    let refused = refused.to_string();
    assert!(
        refused.contains("serve") && refused.contains("--resume"),
        "{refused}"
    );
    let mut processes = Processes::start(&workshop, &address);
    processes.wait();
    let real = digest(&workshop.report());
    let overrides: Vec<&str> = OVERRIDES.iter().skip(1).step_by(2).copied().collect();
    let simulated = workshop.path("simulated");
    let run = workshop.arguments_to(&simulated, &workshop.small(), &overrides);
    run.carry_out().unwrap();
    assert_eq!(real, digest(&simulated));
    assert!(
        !has_checkpoint(&workshop.report()),
        "a complete run keeps no checkpoint"
    );
}

/// Serves so many users in so many processes for these rounds, and returns the uploads that came.
fn serve_many(users: u32, processes: u32, overrides: &[&str]) -> u32 {
    let (workshop, address) = (Workshop::new(), free_address());
    let all = format!("dataset.generator.users={users}");
    let overrides: Vec<&str> = [&[all.as_str()], overrides].concat();
    let set: Vec<&str> = overrides.iter().flat_map(|text| ["--set", text]).collect();
    let began = std::time::Instant::now();
    let mut all = vec![server(&workshop, &address, &set).spawn().unwrap()];
    for number in 0..processes {
        let [first, end] = [number, number + 1].map(|number| number * users / processes);
        let users = format!("{first}..{}", end - 1);
        all.push(process(&address, &users).spawn().unwrap());
    }
    Processes(all).wait();
    println!(
        "{users} users in {processes} processes: {:.1} s",
        began.elapsed().as_secs_f64()
    );
    let simulated = workshop.path("simulated");
    let run = workshop.arguments_to(&simulated, &workshop.small(), &overrides);
    run.carry_out().unwrap();
    assert_eq!(digest(&workshop.report()), digest(&simulated));
    let arrivals = std::fs::read_to_string(workshop.report().join("arrivals.jsonl")).unwrap();
    arrivals.matches("\"uploaded\"").count() as u32
}

/// If this fails, a server has no room for twenty processes, or they come to another model.
#[test]
#[ignore = "takes a minute: cargo test --test it deploy:: -- --ignored --nocapture --test-threads 1"]
fn two_hundred_users_in_twenty_processes_come_to_the_state_of_the_simulation() {
    let uploads = serve_many(200, 20, &["training.rounds=20"]);
    assert_eq!(uploads, 20 * 200);
}

/// If this fails, a server has no room for ten thousand users, or they come to another model.
#[test]
#[ignore = "takes minutes: cargo test --test it deploy:: -- --ignored --nocapture --test-threads 1"]
fn ten_thousand_users_in_four_processes_come_to_the_state_of_the_simulation() {
    let uploads = serve_many(10_000, 4, &["training.rounds=3"]);
    assert_eq!(uploads, 3 * 10_000);
}

/// Returns the memory of a process that is in the machine's, in KiB.
#[cfg(target_os = "linux")]
fn resident_kib(process: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let figure = line.unwrap().split_whitespace().nth(1);
    figure.unwrap().parse().unwrap()
}

/// If this fails, a server or its devices keep something of every round, and a run of months ends by it.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "takes a minute: cargo test --test it deploy:: -- --ignored --nocapture --test-threads 1"]
fn a_thousand_rounds_leave_the_memory_as_it_was() {
    let (workshop, address) = (Workshop::new(), free_address());
    let mut server = server(&workshop, &address, &["--set", "training.rounds=1300"]);
    server.args(["--set", "method.fedrap.learning_rate_tables=0.1"]);
    let mut server = server.stderr(Stdio::piped()).spawn().unwrap();
    let told = BufReader::new(server.stderr.take().unwrap());
    let mut all = vec![server];
    for users in ["0..19", "20..39"] {
        all.push(process(&address, users).spawn().unwrap());
    }
    let mut all = Processes(all);
    let mut held = Vec::new();
    for line in told.lines() {
        let line = line.unwrap();
        // The first rounds take what is kept for later ones.
        if ["round 200/", "round 1200/"]
            .iter()
            .any(|round| line.contains(round))
        {
            held.push(all.0.iter().map(resident_kib).collect::<Vec<_>>());
        }
    }
    all.wait();
    println!("KiB of the server and of two processes: {held:?} after 200 and 1,200 rounds");
    let [before, after] = &held[..] else {
        panic!("{held:?}");
    };
    // The server keeps the record of each round for its report, and devices keep nothing.
    for (place, (before, after)) in before.iter().zip(after).enumerate() {
        let more = if place == 0 { 6 << 10 } else { 2 << 10 };
        assert!(*after < before + more, "{held:?}");
    }
}

/// If this fails, a process that is stopped for longer than it may be silent holds the run up, or does
/// not take part again.
#[cfg(unix)]
#[test]
#[ignore = "takes a minute: cargo test --test it deploy:: -- --ignored --nocapture --test-threads 1"]
fn a_process_that_is_stopped_for_a_minute_takes_part_again() {
    let (workshop, address) = (Workshop::new(), free_address());
    // An evaluation asks all processes, and waits for the one that is stopped.
    let mut server = server(&workshop, &address, &["--set", "training.rounds=2000"]);
    server.args(["--set", "method.fedrap.learning_rate_tables=0.1"]);
    let mut server = server.stderr(Stdio::piped()).spawn().unwrap();
    let told = BufReader::new(server.stderr.take().unwrap());
    let mut all = vec![server];
    for users in ["0..19", "20..39"] {
        all.push(process(&address, users).spawn().unwrap());
    }
    let mut all = Processes(all);
    let stopped = all.0[2].id().to_string();
    let signal = |name: &str| {
        let status = Command::new("kill").args([name, &stopped]).status();
        assert!(status.unwrap().success());
    };
    let mut was_lost = false;
    for line in told.lines() {
        let line = line.unwrap();
        if line.contains("round 50/") {
            signal("-STOP");
        }
        if line.contains("the connection of the users 20..39 is lost") {
            was_lost = true;
            signal("-CONT");
        }
    }
    assert!(was_lost);
    all.wait();
}
