use std::net::TcpListener;
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

impl Processes {
    /// Starts a server and two processes with devices.
    fn start(workshop: &Workshop, address: &str) -> Self {
        let program = || {
            let mut program = Command::new(env!("CARGO_BIN_EXE_fedrecsim"));
            program.stdout(Stdio::null()).stderr(Stdio::null());
            program
        };
        let mut server = program();
        server.arg("serve").arg(workshop.small()).args(OVERRIDES);
        server.args(["--listen", address, "--shape", "none", "--pace", "none"]);
        server.args(["--checkpoint-every", "2", "--resume", "--out"]);
        server.arg(workshop.report());
        let mut all = vec![server.spawn().unwrap()];
        for users in ["0..9", "10..39"] {
            let mut process = program();
            process.args([
                "join",
                address,
                "--users",
                users,
                "--threads",
                "1",
                "--keep",
            ]);
            process.arg(workshop.path(users));
            all.push(process.spawn().unwrap());
        }
        Self(all)
    }

    /// Kills them with SIGKILL, which no process can prepare for.
    fn kill(&mut self) {
        for process in &mut self.0 {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }
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
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
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
    for process in &mut processes.0 {
        assert!(process.wait().unwrap().success());
    }
    let digest = |folder: std::path::PathBuf| {
        let record = std::fs::read_to_string(folder.join("run.json")).unwrap();
        let record: serde_json::Value = serde_json::from_str(&record).unwrap();
        record["state_digest"].as_str().unwrap().to_owned()
    };
    let real = digest(workshop.report());
    let overrides: Vec<&str> = OVERRIDES.iter().skip(1).step_by(2).copied().collect();
    let simulated = workshop.path("simulated");
    let run = workshop.arguments_to(&simulated, &workshop.small(), &overrides);
    run.carry_out().unwrap();
    assert_eq!(real, digest(simulated));
    assert!(
        !has_checkpoint(&workshop.report()),
        "a complete run keeps no checkpoint"
    );
}
