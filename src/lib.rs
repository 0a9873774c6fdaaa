//! fedrecsim simulates federated recommendation: every user is an actor with private parameters,
//! every transfer is a buffer that was really encoded, and time is virtual. It exists to answer one
//! question honestly: **what does a method's accuracy cost in bytes, in time and in privacy, and
//! how many bytes does a sparse C really save?**
//!
//! # The story of one round
//!
//! A [`scenario`] file says what to run; once checked, it never changes. A [`dataset`] is read or
//! generated, and the last rating of every user is held out. A population gives every user a
//! device and a link, and the scenario's [`method`] makes the first item table to share, which is C
//! if the method is FedRAP. Then the [`sim`]ulated world starts, and this is what happens to C:
//!
//! 1. The **server** picks a cohort and encodes C once for all of it, with a [`codec`].
//! 2. The **network**, which owns the clock, turns the length of that frame into time on each
//!    user's link. A dropout may end the transfer half-way.
//! 3. The **client**, one actor per user, submits its training to the **workers** that it lives
//!    with. A worker decodes C and trains on the user's own ratings with the method's rules and the
//!    [`model`]'s kernels. The training is real; its *virtual* duration is work times the speed of
//!    the device. Private parameters have no way into a frame.
//! 4. What training made of C is encoded with the uplink's **codec**, and the network carries it
//!    back.
//! 5. The **server** decodes what arrived and averages it: the C of the next
//!    round.
//! 6. The **metrics** book every byte in a ledger that must balance, count how sparse C is, and
//!    rank every user's held-out item with it.
//!
//! A [`Simulation`](sim::Simulation) runs this round by round, on a thread of its own, as far as
//! its owner wants. The [`Outcome`](sim::Outcome) becomes a [`report`]: how accurate the method
//! was, beside popularity and chance, and what that cost.
//!
//! ```text
//!  scenario ──> dataset ──> population                 what is simulated
//!                  │
//!                  v
//!             ┌────────┐  table   ┌─────────┐  table   ┌─────────┐
//!   cohorts,  │        │ ───────> │         │ ───────> │         │  one per user:
//!   averages  │ server │ [bytes]  │ network │ [bytes]  │ client  │  private parameters,
//!             │        │ <─────── │         │ <─────── │         │  training
//!             └────────┘  update  └─────────┘  update  └─────────┘
//!                            clock [ns], links [bit/s]
//!                                      │  sent, delivered, lost [bytes]; durations [ns]
//!                                      v
//!                                 ┌─────────┐
//!                                 │ metrics │ ──> report
//!                                 └─────────┘
//!                              ledger, accuracy
//! ```
//!
//! [`fedrecsim_sim`] has the picture with the names of the messages.
//!
//! # Running a scenario from a program
//!
//! ```
//! use std::sync::Arc;
//!
//! use fedrecsim::method::vocabulary;
//! use fedrecsim::sim::{self, RunControl, World};
//! use fedrecsim::{Streams, dataset, scenario};
//!
//! let text = r#"
//!     seed = 7
//!     method.pfedrec = { latent_dimension = 8 }
//!     dataset = { name = "generated", generator = { users = 30, items = 200 } }
//!     training = { rounds = 2 }
//!     codec = { uplink = "rows-f32" }
//!     network = { preset = "wifi-2020" }
//! "#;
//! let scenario = scenario::parse(text, "tiny.toml", &[], &vocabulary())?;
//! // A generated population is in no file, so there is no folder to look for it in.
//! let dataset = dataset::load(&scenario.dataset, &[], Streams::new(scenario.seed))?;
//! let world = World::new(scenario, Arc::new(dataset))?;
//! let outcome = sim::run(world, &RunControl::with_threads(2), &mut ())?;
//!
//! let last = outcome.rounds.last().expect("a scenario has at least one round");
//! let accuracy = last.accuracy.as_ref().expect("the last round is always evaluated");
//! println!("HR@10 {:.3}, popularity {:.3}", accuracy.test["hr@10"], outcome.baselines["popularity"].test["hr@10"]);
//! println!("{} bytes up, {} bytes down, {} s", outcome.bytes.up.sent, outcome.bytes.down.sent, last.virtual_time_s);
//! // Nothing drops out here, so every byte that was sent has arrived.
//! assert_eq!(outcome.bytes.up.sent, outcome.bytes.up.delivered);
//! # Ok::<(), fedrecsim::Error>(())
//! ```
//!
//! # Reading map
//!
//! The modules in reading order:
//!
//! | module | holds | in the crate |
//! |---|---|---|
//! | [`scenario`] | the user's TOML file: keys, presets, checks, every fault with its line | `scenario` |
//! | [`dataset`] | ratings, their split, and what one device knows of them | `data` |
//! | [`method`] | the methods of recommendation, and what it takes to write one | `methods` |
//! | [`model`] | named blocks of parameters, and the private part that no codec takes | `model` |
//! | [`codec`] | updates to bytes and back | `model` |
//! | [`sim`] | the simulated world, run as a whole or step by step | `sim` |
//! | [`metric`] | accuracy: hit ratios, NDCG, errors of ratings | `core` |
//! | [`report`] | what a run leaves, as files | `report` |
//! | [`study`] | many runs that differ in a few keys, over seeds | `report` |
//! | [`testing`] | the contract of methods, as a check for one of your own | `sim` |
//! | [`cli`] | the command `fedrecsim` with methods of your own | `src/cli` |
//!
//! The code of all but the last is in crates below `crates/`. In this order, each crate knows only
//! those before it: `core` (with time and bytes as integers, streams of randomness, portable math
//! and the error type), `scenario`, `data`, `model`, `methods`, `sim`, `ranks` (users in several
//! processes, by MPI) and `report`.
//!
//! # Features
//!
//! They are on by default, unless the table says otherwise; `default-features = false` builds the
//! simulator as a library without any of them.
//!
//! | feature | adds |
//! |---|---|
//! | `cli` | the `fedrecsim` command and the module `cli`, with clap and its companions, humantime, indicatif, shlex, rustix, tokio's signals and mimalloc |
//! | `fetch` | `data fetch`, which takes public data sets from their providers, with ureq, rustls and zip; not on by default |
//! | `arrow` | the rounds, users and events of a run as Arrow tables, with arrow-array; not on by default |
//! | `parquet` | the same as Parquet files (`--format parquet`), with parquet; not on by default |
//! | `npz` | the parameters of a trained model as a file for NumPy, with ndarray-npy |
//! | `plots` | the SVG charts of reports and of the events, with plotters |
//! | `mpi` | one simulation on several machines, with the OpenMPI of the system; not on by default |
//!
//! # The contracts
//!
//! Modules refer to these by number.
//!
//! 1. **Determinism.** The same scenario, seed and build give the same result digest at any number
//!    of threads. No iteration over a hash map, no wall clock, no ambient randomness and no
//!    function of the system's math library can reach a result.
//! 2. **Bytes are measured**, never declared: what counts is the length of a buffer that is decoded
//!    at the other end.
//! 3. **Bytes are conserved.** sent = delivered + lost + cancelled + in flight; a report that does
//!    not balance is refused.
//! 4. **Private stays private.** A client's private parameters have no way into a codec.
//! 5. **Real work inside virtual time.** Training is really done; how long it takes in the
//!    simulated world comes from the model of the device, never from the host's clock.
//! 6. **Nothing is silently wrong.** Training that diverges ends the run with an error; no NaN
//!    reaches a report; an error names the file and line, or the round and user.

#![warn(missing_docs)]

/// What this program was built from.
pub const PROGRAM: Program = Program {
    version: env!("CARGO_PKG_VERSION"),
    commit: env!("FEDRECSIM_COMMIT"),
    rustc: env!("FEDRECSIM_RUSTC"),
    settings: env!("FEDRECSIM_BUILD"),
};

/// Scenario files: reading, checking, and the values that they become.
pub mod scenario {
    #[doc(inline)]
    pub use fedrecsim_scenario::{
        CodecSpec, DatasetSpec, DevicesSpec, EvaluationSpec, MethodSpec, MethodVocabulary, Mode,
        NegativesSpec, NetworkSpec, Policy, PrivacySpec, Scenario, TrainingSpec, load, parse,
    };
}

/// Ratings, their split, and what one user's device knows of them.
pub mod dataset {
    #[doc(inline)]
    pub use fedrecsim_data::dataset::{
        Dataset, Interaction, OwnData, load, negatives::Samples, split::Splitter,
    };
}

/// The methods of recommendation, and what it takes to write one.
pub mod method {
    #[doc(inline)]
    pub use fedrecsim_methods::{
        Averager, Class, Classes, Client, Entry, Exchange, Kept, LocalTask, Method, OwnNoise,
        PersonalTable, Phase, Placement, Problem, Scorer, Scoring, ScoringContext, Scratch, Server,
        ThirdParty, Trained,
        declare::{self, Declare, Declared},
        fedmf::{self, FedMf},
        largest_magnitude, parameters,
        prelude::{Central, ParameterFault, Pass, ProblemSize, UploadUse, UserRatings, Work},
        registry::{METHODS, Runnable, build, check, find, vocabulary, vocabulary_of},
        rule::{Combine, Optimizer, ServerRule},
        server::{Accumulator, Contribution, Download, StepContext, StepReport, downcast},
        sizes_by, sizes_of,
        third_party::{ArrivedRequest, Message},
    };

    /// What most methods use, for `use fedrecsim::method::prelude::*`.
    pub mod prelude {
        #[doc(no_inline)]
        pub use fedrecsim_methods::prelude::*;
    }
}

/// Parameters: named blocks, tables, updates, and the private part that no codec takes.
pub mod model {
    #[doc(inline)]
    pub use fedrecsim_methods::prelude::Perceptron;
    #[doc(inline)]
    pub use fedrecsim_model::{
        blocks::{Model, ModelUpdate},
        kernel::MAX_DIMENSION,
        layout::{BlockKind, BlockLayout, Layout, ValueType},
        noisy_sum::NoisySum,
        private::Private,
        state::StateVisitor,
        table::{RowSet, Table, TableShape, TableUpdate, floats},
    };
}

/// Updates to bytes and back.
pub mod codec {
    #[doc(inline)]
    pub use fedrecsim_model::codec::{
        BlockCodecs, BlockContext, Codec, CodecMemory, FrameWriter, OpenedBlock,
    };
    #[doc(inline)]
    pub use fedrecsim_scenario::CodecName;
}

/// The simulated world, run as a whole or step by step.
pub mod sim {
    #[doc(inline)]
    pub use fedrecsim_sim::{
        Estimate, RoundObserver, RunControl, Simulation, Stop, Until, World, estimate,
        outcome::{Outcome, RoundRecord, SplitAccuracy, UserRecord},
        run,
    };
}

/// The contract that every method keeps, as a check for methods of your own.
pub mod testing {
    #[doc(inline)]
    pub use fedrecsim_sim::testing::{Breach, Clause, Contract, contract, gradient_check};
}

/// The files that a run leaves.
pub mod report {
    #[doc(inline)]
    pub use fedrecsim_report::{EXPORTERS, Exporter, Files, ReportFolder, RunRecord, Wall};
}

/// Many runs that differ in a few keys, over seeds.
pub mod study {
    #[doc(inline)]
    pub use fedrecsim_report::study::{
        Plan, StudyRecord,
        file::{self, Study},
    };
}

#[doc(inline)]
pub use fedrecsim_core::{
    error::{Error, Result},
    ids::{InvitationId, Round, UserId},
    math, metric,
    rng::{PortableDraws, Purpose, Stream, Streams},
    units::{Bytes, SimTime},
};
#[doc(inline)]
pub use fedrecsim_methods::{choices, parameters};
#[doc(inline)]
pub use fedrecsim_sim::checkpoint::Program;

#[cfg(feature = "cli")]
pub mod cli;
