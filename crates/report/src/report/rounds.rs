//! The columns of rounds: `rounds.csv`, `network.csv`, and the table of rounds on a page.
//!
//! A cell is empty where the round has no such figure: it was not evaluated, nothing was averaged,
//! or no time has passed. It is never `NaN`.

use super::check;
use super::column::{self, Column, Place, Unit};
use super::frame::Frame;
use super::load::{Count, Load, NetworkSummary};
use super::metrics;
use super::record::{
    ByDirection, Energy, Flow, RoundRecord, RunRecord, SPARSITY_THRESHOLDS, Sparsity, Work,
};
use super::words::threshold;
use fedrecsim_core::error::Result;

/// A finished round, with what is summed up over the rounds before it.
pub(crate) struct Round<'a> {
    record: &'a RoundRecord,
    /// Bytes sent by clients and by the server from the first round on.
    pub(crate) sent: ByDirection<u64>,
    energy_j: Option<f64>,
    network: Option<NetworkSummary>,
}

/// Which columns there are that not every run has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Has {
    /// The columns of accuracy, such as `test_hr@10`.
    pub figures: Vec<String>,
    /// The number of fault rules.
    pub fault_rules: usize,
    pub energy: bool,
    pub sparsity: bool,
    pub third_party: bool,
    pub epsilon: bool,
}

impl Has {
    pub(crate) fn of(record: &RunRecord) -> Self {
        let any = |has: fn(&RoundRecord) -> bool| record.per_round.iter().any(has);
        Self {
            figures: metrics::columns_of(record),
            fault_rules: record.scenario.faults.len(),
            energy: Energy::is_stated(&record.scenario.devices),
            sparsity: any(|round| round.sparsity.is_some()),
            third_party: record.third_party_bytes.is_some(),
            epsilon: any(|round| round.privacy.and_then(|privacy| privacy.epsilon).is_some()),
        }
    }

    /// Returns what a run with everything would have.
    pub(crate) fn all() -> Self {
        Self {
            figures: ["test_hr@10", "validation_hr@10"].map(String::from).into(),
            fault_rules: 1,
            energy: true,
            sparsity: true,
            third_party: true,
            epsilon: true,
        }
    }

    /// Returns what a table that was read has, as far as a page shows it.
    pub(crate) fn of_frame(frame: &Frame) -> Self {
        let is_figure = |name: &&str| metrics::of_column(name).is_some();
        Self {
            figures: frame.names().filter(is_figure).map(str::to_owned).collect(),
            ..Self::default()
        }
    }
}

/// The column with the round's number, from 1.
pub(crate) const ROUND: &str = "round";
/// The column with the virtual time at the end of the round.
pub(crate) const TIME: &str = "virtual_time_s";
/// The columns with the bytes sent by clients and by the server since the run began.
pub(crate) const UP: &str = "cumulative_up_sent_bytes";
pub(crate) const DOWN: &str = "cumulative_down_sent_bytes";

const TABLE: &[Place] = &[Place::Rounds];
const PAGE: &[Place] = &[Place::Rounds, Place::Page];
const NETWORK: &[Place] = &[Place::Network];

/// Returns all columns of rounds.
pub(crate) fn columns<'a>(has: &Has) -> Vec<Column<'a, Round<'a>>> {
    use Unit::{Bytes, BytesPerSecond, Count, Epsilon, Joules, Number, Seconds, Share};
    let mut all = vec![
        column(
            ROUND,
            Count,
            "the round, from 1",
            &[Place::Rounds, Place::Network, Place::Page],
            |r| r.round,
        ),
        column(
            TIME,
            Seconds,
            "virtual time at the end of the round",
            PAGE,
            |r| r.virtual_time_s,
        )
        .labelled("virtual time"),
        column(
            "duration_s",
            Seconds,
            "virtual time that the round took",
            PAGE,
            |r| r.duration_s,
        )
        .labelled("took"),
        column("invited", Count, "invitations sent", PAGE, |r| r.invited),
        column("aggregated", Count, "updates that were used", PAGE, |r| {
            r.aggregated
        })
        .labelled("used"),
        column(
            "dropped",
            Count,
            "participations that were lost, whatever the cause",
            PAGE,
            |r| r.dropped,
        )
        .labelled("lost"),
        column(
            "cancelled",
            Count,
            "participations that the server gave up",
            TABLE,
            |r| r.cancelled,
        ),
        column(
            "late",
            Count,
            "updates that came too late to be used",
            PAGE,
            |r| r.late,
        ),
        column(
            "stale",
            Count,
            "the late ones that came from too old a model",
            TABLE,
            |r| r.stale,
        ),
        column(
            "lost_dropout",
            Count,
            "participations lost to `network.dropout`",
            TABLE,
            |r| r.losses.dropouts,
        ),
        column(
            "lost_departure",
            Count,
            "participations lost because the user left",
            TABLE,
            |r| r.losses.departures,
        ),
    ];
    all.extend((0..has.fault_rules).map(|rule| {
        column(
            format!("lost_fault_{rule}"),
            Count,
            "participations lost to this rule of `[[faults]]`",
            TABLE,
            move |r| r.losses.by_fault(rule),
        )
    }));
    all.push(column(
        "loss",
        Number,
        "training loss, as a mean over the updates that were used",
        PAGE,
        |r| r.loss,
    ));
    for name in &has.figures {
        let Some((split, figure)) = metrics::of_column(name) else {
            continue;
        };
        let label = format!("{} ({split})", metrics::label(figure));
        let doc = format!("{} on the {split} part", metrics::label(figure));
        let figure = figure.to_owned();
        let of = move |r: &RoundRecord| {
            metrics::split(r.accuracy.as_ref()?, split)?
                .get(&figure)
                .copied()
        };
        all.push(column(name.clone(), Unit::Accuracy, doc, PAGE, of).labelled(label));
    }
    for (direction, label) in [("up", "sent up"), ("down", "sent down")] {
        let flow = move |r: &Round<'a>| *of_direction(direction, &r.record.bytes);
        all.extend(
            flow_columns(direction, flow, |name| {
                if name == "sent_bytes" { PAGE } else { TABLE }
            })
            .map(|column| {
                if column.is_in(Place::Page) {
                    column.labelled(label)
                } else {
                    column
                }
            }),
        );
    }
    all.extend([
        Column::new(
            UP,
            Bytes,
            "bytes sent by clients since the run began",
            PAGE,
            |r: &Round<'a>| r.sent.up,
        )
        .labelled("up so far"),
        Column::new(
            DOWN,
            Bytes,
            "bytes sent by the server since the run began",
            PAGE,
            |r: &Round<'a>| r.sent.down,
        )
        .labelled("down so far"),
        column(
            "inference_bytes",
            Bytes,
            "bytes that the evaluated users would download in order to score",
            TABLE,
            |r| r.inference_bytes,
        ),
    ]);
    all.extend(work_columns(TABLE, |r: &Round<'a>| r.record.work));
    if has.energy {
        all.push(Column::new(
            "energy_j",
            Joules,
            "energy that the clients spent",
            TABLE,
            |r: &Round<'a>| r.energy_j,
        ));
    }
    if has.sparsity {
        let of_uploads: fn(&Sparsity) -> [f64; 7] = |sparsity| sparsity.uploads;
        for (place, of) in [
            ("uploads", of_uploads),
            ("averaged", |sparsity| sparsity.averaged),
        ] {
            all.extend(
                SPARSITY_THRESHOLDS
                    .iter()
                    .enumerate()
                    .map(|(number, above)| {
                        let doc = format!(
                            "share of the shared table's values above {} in magnitude, {place}",
                            threshold(*above)
                        );
                        column(share_column(*above, place), Share, doc, TABLE, move |r| {
                            r.sparsity.map(|sparsity| of(&sparsity)[number])
                        })
                    }),
            );
        }
        all.push(column(
            "c_above_0_union",
            Share,
            "share of the values that some upload has not as 0",
            TABLE,
            |r| r.sparsity?.union,
        ));
    }
    if has.third_party {
        for direction in ["up", "down"] {
            let of = move |r: &RoundRecord| {
                of_direction(direction, &r.third_party_bytes.unwrap_or_default()).sent
            };
            all.push(column(
                format!("third_party_{direction}_sent_bytes"),
                Bytes,
                "bytes exchanged with the third party",
                TABLE,
                of,
            ));
        }
    }
    if has.epsilon {
        all.push(column(
            "epsilon",
            Epsilon,
            "the epsilon that is claimed after the round",
            TABLE,
            |r| r.privacy?.epsilon,
        ));
    }
    all.extend([
        column(
            "virtual_begin_s",
            Seconds,
            "virtual time at which the round began",
            NETWORK,
            |r| r.network.began.as_secs_f64(),
        ),
        column(
            "virtual_end_s",
            Seconds,
            "virtual time at which it ended",
            NETWORK,
            |r| r.network.ended.as_secs_f64(),
        ),
    ]);
    for (direction, of) in [
        ("up", (|network| network.up) as fn(&NetworkSummary) -> Load),
        ("down", |network| network.down),
    ] {
        let load = move |name: &str, unit, doc, figure: fn(&Load) -> Option<f64>| {
            Column::new(
                format!("{direction}_{name}"),
                unit,
                doc,
                NETWORK,
                move |r: &Round<'a>| figure(&of(&r.network?)),
            )
        };
        all.extend([
            load(
                "mean_bytes_per_s",
                BytesPerSecond,
                "mean load of the server's link in this direction",
                |load| Some(load.mean_bytes_per_s),
            ),
            load("max_bytes_per_s", BytesPerSecond, "largest load", |load| {
                Some(load.max_bytes_per_s)
            }),
            load(
                "mean_share",
                Share,
                "mean load as a share of the link's limit",
                |load| load.mean_share,
            ),
            load(
                "max_share",
                Share,
                "largest load as a share of the link's limit",
                |load| load.max_share,
            ),
        ]);
    }
    type OfNetwork = fn(&NetworkSummary) -> self::Count;
    type OfRound = fn(&RoundRecord) -> u64;
    let counts: [(&str, &str, OfNetwork, OfRound); 3] = [
        (
            "transfers",
            "transfers at once",
            |network| network.transfers,
            |r| r.network.levels.transfers.max,
        ),
        (
            "line",
            "users in the line for a connection",
            |network| network.line,
            |r| r.network.levels.line.max,
        ),
        (
            "waiting_users",
            "users whose participation has not ended",
            |network| network.waiting_users,
            |r| r.network.levels.waiting_users.max,
        ),
    ];
    for (name, what, mean, max) in counts {
        all.push(Column::new(
            format!("{name}_mean"),
            Number,
            format!("{what}, mean over time"),
            NETWORK,
            move |r: &Round<'a>| Some(mean(&r.network?).mean),
        ));
        all.push(column(
            format!("{name}_max"),
            Count,
            format!("{what}, maximum"),
            NETWORK,
            max,
        ));
    }
    // Of no waits at all, the sum is 0, and there is neither a quantile nor a maximum.
    let quantile = |name, doc, of: fn(&RoundRecord) -> f64| {
        column(name, Seconds, doc, NETWORK, move |r| {
            Some(of(r)).filter(|_| r.network.waits.count > 0)
        })
    };
    all.extend([
        column(
            "line_wait_count",
            Count,
            "waits for a connection that ended in the round",
            NETWORK,
            |r| r.network.waits.count,
        ),
        column(
            "line_wait_total_s",
            Seconds,
            "the time of these waits together",
            NETWORK,
            |r| r.network.waits.total_s,
        ),
        quantile("line_wait_p50_s", "their median", |r| r.network.waits.p50_s),
        quantile("line_wait_p95_s", "their 95th percentile", |r| {
            r.network.waits.p95_s
        }),
        quantile("line_wait_max_s", "the longest", |r| r.network.waits.max_s),
    ]);
    all
}

/// Returns a column that reads the record of a round.
fn column<'a, V: Into<column::Value>>(
    name: impl Into<std::borrow::Cow<'static, str>>,
    unit: Unit,
    doc: impl Into<std::borrow::Cow<'static, str>>,
    shown_in: &'static [Place],
    of: impl Fn(&RoundRecord) -> V + 'a,
) -> Column<'a, Round<'a>> {
    Column::new(name, unit, doc, shown_in, move |round: &Round<'a>| {
        of(round.record)
    })
}

fn of_direction<'f>(direction: &str, bytes: &'f ByDirection<Flow>) -> &'f Flow {
    if direction == "up" {
        &bytes.up
    } else {
        &bytes.down
    }
}

/// The name, the unit and the meaning of a number in a `T`, and how it is read.
type Part<T> = (&'static str, Unit, &'static str, fn(T) -> u64);

/// Returns the columns of the bytes of one direction.
pub(super) fn flow_columns<'a, T: 'a>(
    direction: &'static str,
    flow: impl Fn(&T) -> Flow + Copy + 'a,
    shown_in: fn(&str) -> &'static [Place],
) -> impl Iterator<Item = Column<'a, T>> {
    use Unit::{Bytes, Count};
    let all: [Part<Flow>; 14] = [
        ("sent_bytes", Bytes, "bytes sent", |flow| flow.sent),
        (
            "delivered_bytes",
            Bytes,
            "of these, bytes that arrived",
            |flow| flow.delivered,
        ),
        (
            "lost_bytes",
            Bytes,
            "bytes lost to dropouts, departures and faults",
            |flow| flow.lost,
        ),
        (
            "cancelled_bytes",
            Bytes,
            "bytes of transfers that the server gave up",
            |flow| flow.cancelled,
        ),
        (
            "in_flight_bytes",
            Bytes,
            "bytes still on their way at the end",
            |flow| flow.in_flight,
        ),
        (
            "unreceived_bytes",
            Bytes,
            "of those that did not arrive, bytes that a `drop` fault swallowed",
            |flow| flow.unreceived,
        ),
        (
            "useful_bytes",
            Bytes,
            "of the delivered bytes, those that were used",
            |flow| flow.useful,
        ),
        (
            "late_bytes",
            Bytes,
            "of the delivered bytes, those that came too late",
            |flow| flow.late,
        ),
        (
            "stale_bytes",
            Bytes,
            "of the delivered bytes, those from too old a model",
            |flow| flow.stale,
        ),
        (
            "header_bytes",
            Bytes,
            "of the sent bytes, headers",
            |flow| flow.header,
        ),
        ("index_bytes", Bytes, "of the sent bytes, indices", |flow| {
            flow.index
        }),
        ("values_bytes", Bytes, "of the sent bytes, values", |flow| {
            flow.values
        }),
        ("frames", Count, "frames sent", |flow| flow.frames),
        (
            "modelled_bytes",
            Bytes,
            "of the sent bytes, those that `[overheads]` adds",
            |flow| flow.modelled,
        ),
    ];
    all.into_iter().map(move |(name, unit, doc, of)| {
        let doc = format!("{direction}: {doc}");
        Column::new(
            format!("{direction}_{name}"),
            unit,
            doc,
            shown_in(name),
            move |row| of(flow(row)),
        )
    })
}

/// Returns the columns of work, in the order of `rounds.csv`.
pub(super) fn work_columns<'a, T: 'a>(
    shown_in: &'static [Place],
    work: impl Fn(&T) -> Work + Copy + 'a,
) -> [Column<'a, T>; 7] {
    use Unit::{Bytes, Count};
    let all: [Part<Work>; 7] = [
        (
            "row_visits",
            Count,
            "row visits of trainings that came to their end",
            |work| work.finished,
        ),
        (
            "lost_row_visits",
            Count,
            "row visits of trainings that were cut off",
            |work| work.lost,
        ),
        (
            "unused_row_visits",
            Count,
            "row visits for updates that were not used",
            |work| work.unused,
        ),
        (
            "unused_download_bytes",
            Bytes,
            "downloaded bytes for updates that were not used",
            |work| work.unused_download_bytes,
        ),
        (
            "multiply_adds",
            Count,
            "multiply-adds of trainings that came to their end",
            |work| work.finished_multiply_adds,
        ),
        (
            "lost_multiply_adds",
            Count,
            "multiply-adds of trainings that were cut off",
            |work| work.lost_multiply_adds,
        ),
        (
            "unused_multiply_adds",
            Count,
            "multiply-adds for updates that were not used",
            |work| work.unused_multiply_adds,
        ),
    ];
    all.map(|(name, unit, doc, of)| {
        Column::new(name, unit, doc, shown_in, move |row| of(work(row)))
    })
}

/// Returns the column with the share of the shared table's values above a threshold, in the
/// `uploads` or as `averaged`.
pub(crate) fn share_column(above: f32, place: &str) -> String {
    format!("c_above_{}_{place}", threshold(above))
}

/// Returns whether `name` is that of a column of how sparse the averaged table is, such as
/// `c_above_1e-2_averaged`.
pub(crate) fn is_sparsity(name: &str) -> bool {
    let names = SPARSITY_THRESHOLDS.map(|above| share_column(above, "averaged"));
    names.iter().any(|averaged| averaged == name)
}

/// Returns the row of the round that a run is judged by.
pub(crate) fn selected<S>(record: &RunRecord<S>, rounds: &Frame) -> Option<usize> {
    rounds.find(ROUND, record.selected_round?.into())
}

/// Returns the rounds of a run.
pub(crate) fn rows<'r>(record: &'r RunRecord) -> Vec<Round<'r>> {
    let mut sent = ByDirection::<u64>::default();
    let row = |round: &'r RoundRecord| {
        let RoundRecord {
            bytes,
            work,
            network,
            ..
        } = round;
        sent.up += bytes.up.sent;
        sent.down += bytes.down.sent;
        let energy = Energy::of(&record.scenario.devices, bytes, *work);
        Round {
            record: round,
            sent,
            energy_j: energy.map(|energy| energy.total_j()),
            network: NetworkSummary::of(network, &record.scenario.network),
        }
    };
    record.per_round.iter().map(row).collect()
}

/// Returns `rounds.csv` or `network.csv`.
///
/// # Errors
/// Those of [`check::check`].
pub(crate) fn csv(record: &RunRecord, place: Place) -> Result<String> {
    check::check(record)?;
    let columns = column::at(columns(&Has::of(record)), place);
    Ok(column::csv(&columns, &rows(record)))
}

/// Returns the columns of the table of rounds, or of the server's link, as numbers.
pub(crate) fn frame(record: &RunRecord, place: Place) -> Frame {
    let columns = column::at(columns(&Has::of(record)), place);
    Frame::of(&columns, &rows(record))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::tests::records as sample;
    use fedrecsim_core::error::Error;
    use fedrecsim_core::units::BitsPerSecond;
    use fedrecsim_scenario::scenario::{FaultEffect, FaultSpec};
    use fedrecsim_sim::sim::outcome::Losses;
    use fedrecsim_sim::sim::outcome::Waits;

    fn csv_of(record: &RunRecord) -> Result<String> {
        csv(record, Place::Rounds)
    }

    fn parsed(text: &str) -> (Vec<String>, Vec<Vec<String>>) {
        // The reader itself refuses rows of unequal length.
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        let names = reader.headers().unwrap().iter().map(String::from).collect();
        let rows = reader
            .records()
            .map(|row| row.unwrap().iter().map(String::from).collect())
            .collect();
        (names, rows)
    }

    #[test]
    fn the_table_of_rounds_reads_like_this() {
        insta::assert_snapshot!(csv_of(&sample::run(3)).unwrap());
    }

    #[test]
    fn rounds_without_evaluation_have_empty_cells_in_the_same_columns() {
        let mut record = sample::evaluated_every(2, 4);
        record.per_round[2].loss = None;
        record.per_round[2].sparsity = None;
        let (names, rows) = parsed(&csv_of(&record).unwrap());
        let column = |name: &str| {
            names
                .iter()
                .position(|n| n == name)
                .unwrap_or_else(|| panic!("no column {name}"))
        };
        let cells = |name: &str| -> Vec<bool> {
            rows.iter()
                .map(|row| !row[column(name)].is_empty())
                .collect()
        };
        assert_eq!(cells("test_hr@10"), [false, true, false, true]);
        assert_eq!(cells("loss"), [true, true, false, true]);
        assert_eq!(cells("c_above_1e-4_averaged"), [true, true, false, true]);
        assert!(!names.iter().any(|name| name.starts_with("validation_")));
    }

    #[test]
    fn energy_has_a_column_where_the_scenario_states_it() {
        let (names, rows) = parsed(&csv_of(&sample::over_selected(2)).unwrap());
        let column = names.iter().position(|name| name == "energy_j").unwrap();
        let sum: f64 = rows
            .iter()
            .map(|row| row[column].parse::<f64>().unwrap())
            .sum();
        let total = sample::over_selected(2).energy.unwrap().total_j();
        assert!((sum - total).abs() < 1e-9 * total, "{sum} {total}");
        assert!(
            !parsed(&csv_of(&sample::run(2)).unwrap())
                .0
                .contains(&"energy_j".to_owned())
        );
    }

    /// If this fails, a loss is in the column of another rule, or a rule without a loss has no
    /// column.
    #[test]
    fn every_fault_rule_has_a_column_and_the_causes_add_up() {
        let mut record = sample::run(2);
        record.scenario.faults = vec![FaultSpec::always(FaultEffect::Drop); 3];
        for round in &mut record.per_round {
            round.losses = Losses {
                dropouts: 40,
                departures: 2,
                faults: vec![0, 5],
            };
        }
        let (names, rows) = parsed(&csv_of(&record).unwrap());
        let cell = |name: &str| {
            rows[1][names.iter().position(|n| n == name).unwrap()]
                .parse::<u64>()
                .unwrap()
        };
        let causes = [
            "lost_dropout",
            "lost_departure",
            "lost_fault_0",
            "lost_fault_1",
            "lost_fault_2",
        ]
        .map(cell);
        assert_eq!((causes, cell("dropped")), ([40, 2, 0, 5, 0], 47));
    }

    #[test]
    fn cumulative_bytes_end_at_the_totals() {
        let record = sample::run(3);
        let (names, rows) = parsed(&csv_of(&record).unwrap());
        let column = names
            .iter()
            .position(|name| name == "cumulative_down_sent_bytes")
            .unwrap();
        assert_eq!(rows[2][column], record.bytes.down.sent.to_string());
    }

    #[test]
    fn a_run_without_a_finished_round_leaves_a_header() {
        let (names, rows) = parsed(&csv_of(&sample::nothing_finished()).unwrap());
        assert_eq!(names[0], "round");
        assert!(rows.is_empty());
    }

    #[test]
    fn nan_is_refused() {
        let mut record = sample::run(2);
        record.per_round[0].sparsity.as_mut().unwrap().uploads[3] = f64::NAN;
        assert!(matches!(csv_of(&record), Err(Error::NonFinite { .. })));
    }

    #[test]
    fn the_table_of_the_network_reads_like_this() {
        let mut record = sample::run(2);
        record.scenario.network.server.downlink = Some(BitsPerSecond::new(1_000_000_000));
        record.per_round[1].network.waits = Waits::default();
        insta::assert_snapshot!(csv(&record, Place::Network).unwrap());
    }
}
