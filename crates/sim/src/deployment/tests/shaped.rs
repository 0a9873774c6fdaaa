//! Holds shaped links against the links of the simulation. Time is virtual here, so that both must
//! agree to the nanosecond.

use super::*;

/// What happens next, in the order of time.
type Agenda = BTreeMap<(SimTime, u64), Event>;

struct InMemory(Rc<Devices>);

impl Hosts for InMemory {
    fn users(&self) -> Vec<Range<u32>> {
        vec![self.0.users()]
    }

    fn ask(&self, _: usize, question: Bytes) -> Working<'_, Bytes> {
        Box::pin(async { Ok(self.0.answer(question).await) })
    }
}

/// Asks nobody, for methods whose devices ask for nothing.
struct Nobody;

impl AskPeers for Nobody {
    fn ask(&self, _: Participant, _: Peer, _: Message<'_>) -> Result<Frame> {
        Err(Error::Interrupted)
    }
}

/// Runs `world` over shaped links, with devices that take as long as the scenario says.
fn run_shaped(world: &Arc<World>) -> Result<Outcome> {
    let world = Arc::clone(world);
    System::with_tokio_rt(runtime).block_on(async move {
        let flag = Arc::new(AtomicBool::default());
        let users = 0..world.dataset.users() as u32;
        let devices = Devices::new(Arc::clone(&world), 1, Arc::clone(&flag), users)?;
        let devices = Rc::new(devices);
        let workers = remote_workers(InMemory(Rc::clone(&devices)));
        let coordinator = Coordinator::start(world, 1, flag, workers, None).await?;
        let mut shaped = Shaped::new(coordinator, true);
        let (mut now, mut agenda, mut numbers) = (SimTime::ZERO, Agenda::new(), 0..);
        while !shaped.is_over() {
            let mut orders = shaped.begin_round(now)?;
            'round: loop {
                for order in std::mem::take(&mut orders) {
                    let mut then = |at, event| {
                        agenda.insert((at, numbers.next().unwrap()), event);
                    };
                    match order {
                        Order::Invite(invite) => {
                            let participant = invite.participant;
                            then(now, Event::Of(participant, Told::Received));
                            let trained = devices.train(invite, Arc::new(Nobody)).await?;
                            let Trained {
                                sent,
                                loss,
                                virtual_length,
                                ..
                            } = trained.unwrap();
                            let uploaded = Told::Uploaded(sent, loss);
                            then(now + virtual_length, Event::Of(participant, uploaded));
                        }
                        Order::Taken(participant) => devices.taken(participant)?,
                        Order::Cancel(participant) => {
                            let is_of = |event: &Event| {
                                matches!(event, Event::Of(own, _) if *own == participant)
                            };
                            agenda.retain(|_, event| !is_of(event));
                            devices.cancel(participant)?;
                        }
                        Order::Reply(..) => unreachable!("nobody asks"),
                        Order::WakeAt(at) => then(at.max(now), Event::AlarmRings),
                        Order::EndRound => {
                            shaped.end_round().await?;
                            break 'round;
                        }
                    }
                }
                let ((at, _), event) = agenda.pop_first().unwrap_or_else(|| panic!("nothing is left at {now:?}, and the round is open"));
                now = at;
                orders = shaped.happened(now, event)?;
            }
        }
        let outcome = shaped.collect(now, None).await?;
        shaped.end(now)?;
        Ok(outcome)
    })
}

/// If this fails, a participation whose frame is on a slow link outlives the connection of its
/// process, and the server waits for an upload that another device would make.
#[test]
fn what_is_on_the_links_is_lost_with_its_connection() {
    let entry = METHODS.iter().find(|entry| entry.name == "fedmf").unwrap();
    let world = Arc::new(Contract::of(entry).world(&["network.rtt_ms=1e9"]).unwrap());
    System::with_tokio_rt(runtime).block_on(async move {
        let flag = Arc::new(AtomicBool::default());
        let users = 0..world.dataset.users() as u32;
        let devices = Devices::new(Arc::clone(&world), 1, Arc::clone(&flag), users.clone());
        let workers = remote_workers(InMemory(Rc::new(devices.unwrap())));
        let coordinator = Coordinator::start(world, 1, flag, workers, None)
            .await
            .unwrap();
        let mut shaped = Shaped::new(coordinator, true);
        let orders = shaped.begin_round(SimTime::ZERO).unwrap();
        assert!(matches!(orders[..], [Order::WakeAt(_)]), "{orders:?}");
        let lost = shaped.on_links_of(users.clone());
        assert!(!lost.is_empty());
        let mut orders = Vec::new();
        for participant in lost {
            let event = Event::Of(participant, Told::Lost);
            orders = shaped.happened(SimTime::ZERO, event).unwrap();
        }
        assert!(orders.iter().any(|order| matches!(order, Order::EndRound)));
        assert!(shaped.on_links_of(users).is_empty());
        let (record, _) = shaped.end_round().await.unwrap();
        assert_eq!((record.lost, record.aggregated), (record.invited, 0));
    });
}

/// If this fails, `serve` holds frames back for another time than the simulation says, so that a
/// comparison of both says nothing.
#[test]
fn a_frame_is_held_back_for_as_long_as_in_the_simulation() {
    const LINKS: &str = "network.rates.lognormal={ downlink_median_mbit_per_s = 2, uplink_median_mbit_per_s = 1, \
                         downlink_log_sigma = 0.9, uplink_log_sigma = 0.7, transfer_log_sigma = 0.2 }";
    const RTT: &str = "network={ rtt_ms = 40, rtt_log_sigma = 0.4 }";
    const SPEED: &str = "devices.fixed_ms_per_participation=30";
    const NARROW: &str =
        "network.server={ uplink_mbit_per_s = 1, downlink_mbit_per_s = 2, connections = 4 }";
    let half = "training.participation={ share = 0.5 }";
    let entry = METHODS.iter().find(|entry| entry.name == "fedmf").unwrap();
    for overrides in [
        &[half][..],
        &[half, NARROW],
        &[half, NARROW, "network.sharing=\"tcp\""],
        &[
            half,
            "training.mode={ over-selection = { factor = 1.5, deadline_s = 60 } }",
        ],
        &[
            half,
            "training.mode={ semi-synchronous = { deadline_s = 0.15 } }",
        ],
        &[
            "training.mode={ fedbuff = { concurrency = 6, buffer = 3 } }",
            NARROW,
        ],
        &["training.mode={ fedasync = { concurrency = 4 } }"],
    ] {
        let all = [&[LINKS, RTT, SPEED, "training.rounds=5"], overrides].concat();
        let world = Contract::of(entry).world(&all);
        let world = Arc::new(world.unwrap_or_else(|seen| panic!("{all:?}: {seen:?}")));
        let control = RunControl::with_threads(1);
        let simulated = crate::run(Arc::clone(&world), &control, &mut ()).unwrap();
        let shaped = run_shaped(&world).unwrap();
        let ends = |outcome: &Outcome| -> Vec<_> {
            let rounds = outcome.rounds.iter();
            rounds.map(|round| round.virtual_time_s).collect()
        };
        assert_eq!(ends(&shaped), ends(&simulated), "{overrides:?}");
        let waits_for_all = !overrides.iter().any(|line| line.contains("mode"));
        if waits_for_all {
            assert_eq!(shaped.state_digest, simulated.state_digest, "{overrides:?}");
        }
    }
}
