use crate::support::{run, small, small_with};

const WORLDLY: [&str; 3] =
    ["network.preset=\"wifi-2020\"", "network.dropout=0.3", "devices.preset=\"phone-lognormal\""];

const COHORT: &str = "training.participation={ cohort = 15 }";

/// If this fails, a synchronous round computes something else than before there were other modes. The digests are those
/// of the last build without them.
#[test]
fn synchronous_rounds_are_as_they_were_before_there_were_other_modes() {
    let cohort = [&WORLDLY[..], &["training.participation={ cohort = 15 }", "codec.uplink=\"rows-f32\""]].concat();
    let share = [&WORLDLY[..], &["training.participation={ share = 0.5 }", "codec.uplink=\"sparse-f32\""]].concat();
    for (scenario, digest) in [
        (small_with("pfedrec", &[]), "017819dde0acd0dca653f8150818b9f5f6bd8d2264abf70540c41c958069e63c"),
        (small_with("pfedrec", &cohort), "86c23d4c10bc666423c3d1c29abcca668bb96af88433582da69ec46a36d2607d"),
        (small_with("fedmf", &[]), "74ceea65622a245d90f6cb836788b50443f98844790e458e08b85d3d0281cdf8"),
        (small_with("fedmf", &cohort), "8b983ecf8cf7404492bc89083e385f2f8495ae841cfac3d8be0faffc236f23c6"),
        (small(&share), "b65cda62e9b992db4203c5b6e66e0b69cd1a6221e9436a2be6b4d9f2206d8f87"),
    ] {
        let method = scenario.method.name.clone();
        assert_eq!(run(scenario, 2).digest, digest, "{method}");
    }
}

/// If this fails, a redesign has changed what a mode other than the synchronous one computes. The digests are those of
/// the last build before the seams were redesigned.
#[test]
fn every_other_mode_is_as_it_was_before_the_seams_were_redesigned() {
    let over_selection = ["training.mode={ over-selection = { factor = 1.5, deadline_s = 3.0 } }", COHORT];
    let late = ["training.mode={ over-selection = { factor = 1.5, stragglers = \"late\" } }", COHORT];
    let semi_synchronous = ["training.mode={ semi-synchronous = { deadline_s = 0.03 } }", COHORT];
    let fedbuff =
        ["training.mode={ fedbuff = { concurrency = 12, buffer = 4, server_rate = 0.8 } }", "training.rounds=8"];
    let fedasync = ["training.mode={ fedasync = { concurrency = 9, mixing = 0.5 } }", "training.rounds=12"];
    for (name, mode, digests) in [
        (
            "over-selection",
            over_selection,
            [
                "234419de09cbdc656690edbd23355b4af0ef271bf113df2b32417487b128bec3",
                "71eecdca956259b13889587bb2193f4894d03afd568780e8c5f8fc08b09009c7",
            ],
        ),
        (
            "over-selection, late stragglers",
            late,
            [
                "a97147c2a5c99b50b4ff05bd3eead4026d0def41a548e3d6ef8e8a103dfecd8e",
                "0b0563704b51a8672c521563ef1274c4d1feaf9d90f963da34c1dd3aeee4f523",
            ],
        ),
        (
            "semi-synchronous",
            semi_synchronous,
            [
                "3b828cdeeaad5f25e44f5606732f0a2eac449d6bc0492ca1f6f7592896e5f0c2",
                "8c933326b9e37d09ef7121d8ebe16c70a6441db6c80f1f5b0c1c1cda5a15ca6c",
            ],
        ),
        (
            "fedbuff",
            fedbuff,
            [
                "3a88aa7081f839216d5e4c05768575b40afb5078eb0b5701ff5f5e51b987f427",
                "15ba271f5ac495d2f8400d786cf5158b9bd64823c4ecd6d6bbdf2d3e831ea73e",
            ],
        ),
        (
            "fedasync",
            fedasync,
            [
                "761731807e8585369214926d8451100f5e2064af9702f21e9241c55fef02b60f",
                "fb8119edd20253ca127400698a82a1771fb6e696a500776a87d973a7f693ac8e",
            ],
        ),
    ] {
        for (method, digest) in ["fedrap", "fedmf"].into_iter().zip(digests) {
            let outcome = run(
                small_with(
                    method,
                    &[&WORLDLY[..], &["codec.uplink=\"rows-f32\"", "network.dropout=0.05"], &mode].concat(),
                ),
                2,
            );
            assert_eq!(outcome.digest, digest, "{name}, {method}");
        }
    }
}
