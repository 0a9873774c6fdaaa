use crate::support::{run, small, small_with};

const WORLDLY: [&str; 3] = [
    "network.preset=\"wifi-2020\"",
    "network.dropout=0.3",
    "devices.preset=\"phone-lognormal\"",
];

const COHORT: &str = "training.participation={ cohort = 15 }";

/// The digests that are not what they were: all of them, so that a change of what the digest covers
/// is seen at once.
#[derive(Default)]
struct Moved(Vec<String>);

impl Moved {
    fn compare(&mut self, what: &str, found: &str, pinned: &str) {
        if found != pinned {
            self.0.push(format!("{what}: {pinned} became {found}"));
        }
    }

    fn none(self) {
        assert!(self.0.is_empty(), "{}", self.0.join("\n"));
    }
}

/// If this fails, a synchronous round computes something else than before there were other modes.
/// The digests are those of the last build without them, over what the digest covers today.
#[test]
fn synchronous_rounds_are_as_they_were_before_there_were_other_modes() {
    let mut moved = Moved::default();
    let cohort = [
        &WORLDLY[..],
        &[
            "training.participation={ cohort = 15 }",
            "codec.uplink=\"rows-f32\"",
        ],
    ]
    .concat();
    let share = [
        &WORLDLY[..],
        &[
            "training.participation={ share = 0.5 }",
            "codec.uplink=\"sparse-f32\"",
        ],
    ]
    .concat();
    for (scenario, digest) in [
        (
            small_with("pfedrec", &[]),
            "ca8b3b0d73b7a095c0febdd99852e1cbdd2f652d75f44e44024b22fdf3d31e5d",
        ),
        (
            small_with("pfedrec", &cohort),
            "6e68340c4b6d88be1a3567b753c78ed077bd00bb338caceb77993f80b1ac91c8",
        ),
        (
            small_with("fedmf", &[]),
            "2e0f7912ebc266fb488a1904842ec5da8ab85da86eec19fc28c0c0ebcaaf8ee4",
        ),
        (
            small_with("fedmf", &cohort),
            "ca137eb2275a23ef40d1cd83427eb15a9a1a8a80083632162be3d9f40359816c",
        ),
        (
            small(&share),
            "1d4cda950d594fd88cac9c4a586ad853c12dad58e40d5957edefbe1af94457a6",
        ),
    ] {
        let method = scenario.method.name.clone();
        moved.compare(&method, &run(scenario, 2).digest, digest);
    }
    moved.none();
}

/// If this fails, a redesign has changed what a mode other than the synchronous one computes. The
/// digests are those of the last build before the seams were redesigned, over what the digest
/// covers today.
#[test]
fn every_other_mode_is_as_it_was_before_the_seams_were_redesigned() {
    let mut moved = Moved::default();
    let over_selection = [
        "training.mode={ over-selection = { factor = 1.5, deadline_s = 3.0 } }",
        COHORT,
    ];
    let late = [
        "training.mode={ over-selection = { factor = 1.5, stragglers = \"late\" } }",
        COHORT,
    ];
    let semi_synchronous = [
        "training.mode={ semi-synchronous = { deadline_s = 0.03 } }",
        COHORT,
    ];
    let fedbuff = [
        "training.mode={ fedbuff = { concurrency = 12, buffer = 4, server_rate = 0.8 } }",
        "training.rounds=8",
    ];
    let fedasync = [
        "training.mode={ fedasync = { concurrency = 9, mixing = 0.5 } }",
        "training.rounds=12",
    ];
    for (name, mode, digests) in [
        (
            "over-selection",
            over_selection,
            [
                "cfa92275e4a417ee2d020462225e6434f937c08337ed7aca5a0fca302f675a46",
                "3c0067b794c586c27e43e59a22288da541415e6a2e9bf4eb37fe93b8beb95fd8",
            ],
        ),
        (
            "over-selection, late stragglers",
            late,
            [
                "ca1b6d6e9503a2400c240104fcad303a20c52c8cad8979f2a52ac2dfdb23ac6f",
                "1456129ce76d13a812173a133d5fcab7b8de53f4580cfa9d5eb78ca2793c43b7",
            ],
        ),
        (
            "semi-synchronous",
            semi_synchronous,
            [
                "605ea555cfeeafb0d7898b730c4ce2f96ecf3fc4f0502746ed8bb2267e5ee0e9",
                "d2c9eb82905cb02efb1e425558399f258338319211d8b0fc373e8b99769bf9e7",
            ],
        ),
        (
            "fedbuff",
            fedbuff,
            [
                "180d8d8c00165e5ae44ef18cc008a93aaee342e0d262eff77c2993da85f18b64",
                "9e2755f5326f998bf3c1388bf4b2d3f366aecfefb81e05f06438d9b0a3fcea1f",
            ],
        ),
        (
            "fedasync",
            fedasync,
            [
                "77fd1afcd2ce18c967e12de9b07c641dde9f3dab8a4f6b994477efe20ed77ed9",
                "3c3cb7c6e69c420a2dc580e08091d4397a0f1faa169a9fcae6a33bc0b60102b2",
            ],
        ),
    ] {
        for (method, digest) in ["fedrap", "fedmf"].into_iter().zip(digests) {
            let outcome = run(
                small_with(
                    method,
                    &[
                        &WORLDLY[..],
                        &["codec.uplink=\"rows-f32\"", "network.dropout=0.05"],
                        &mode,
                    ]
                    .concat(),
                ),
                2,
            );
            moved.compare(&format!("{name}, {method}"), &outcome.digest, digest);
        }
    }
    moved.none();
}
