//! Asks what a server could read out of uploads: which items their senders have rated.
//!
//! A probe looks at decoded uploads and row requests, and at nothing else. It guesses by three
//! scores: whether a row was changed at all, how far it was moved, and how much against the
//! sender's mean change. It guesses from the uploads of a round alone, and from all uploads of a
//! user so far together. Its guesses are compared with the truth, which the simulator knows.
//! Nothing of this has an effect on the run.

mod probe;
mod scores;

use std::cmp::Ordering;
use std::collections::BTreeMap;

use ndarray::Array2;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::outcome::{AuditFigures, AuditRecord};
use crate::world::World;
use fedrecsim_core::{Result, Round, UserId};
use fedrecsim_methods::server::Contribution;
use fedrecsim_model::algebra::symmetric_eigen;
use fedrecsim_model::archive::damaged;
use fedrecsim_model::table::floats;
use fedrecsim_model::{
    Archive, ArchiveReader, BlockKind, BlockLayout, Layout, RowSet, TableUpdate, ValueType,
};
use fedrecsim_scenario::AuditSpec;

use probe::{ChangedRows, SCORES, add_present, changed_rows};
use scores::{Group, figures, groups};

/// The score of an item that an upload leaves as it is, where scores of several uploads are added
/// up.
const UNCHANGED: [f32; SCORES] = [0.0, 0.0, -1.0];

/// The audit of a run, as far as it has come.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    spec: Option<AuditSpec>,
    /// What is guessed by each item table of uploads, by its name.
    tables: BTreeMap<String, OfTable>,
    /// The number of outer products in the uploads of the open round, and the sum of what they say.
    outer_products: u64,
    largest_eigenvalues: f64,
}

/// What is guessed by one item table of uploads.
#[derive(Debug, Default)]
struct OfTable {
    /// For each user that is looked at, the sums of the scores of every item over all uploads so
    /// far, without those of items that were left as they are, and the number of uploads.
    linked: BTreeMap<UserId, Linked>,
    /// The sums of the figures of the open round.
    sums: Sums,
}

/// The findings on a user from all its uploads.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Linked {
    uploads: u32,
    /// For each score, the sums over the uploads by item, less what an unchanged item has.
    scores: [Vec<f32>; SCORES],
}

/// Sums over users.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    users: u64,
    figures: [AuditFigures; SCORES],
}

/// The findings on one upload.
struct Found<'a> {
    user: UserId,
    /// The findings on its item tables, each with its name.
    tables: Vec<(&'a str, OfUpload)>,
    /// The share of the largest eigenvalue in the trace of what should be an outer product, if
    /// there is one.
    largest_eigenvalue: Option<f64>,
}

/// The findings on one item table of an upload.
struct OfUpload {
    rows: ChangedRows,
    figures: Option<[AuditFigures; SCORES]>,
}

impl Audit {
    /// Begins the audit that a scenario asks for, if it does.
    pub(crate) fn new(world: &World) -> Self {
        Self {
            spec: world.scenario.audit,
            ..Self::default()
        }
    }

    /// Looks at uploads of `round`, in the given order, and at the rows that each sender has asked
    /// for.
    pub(crate) fn look(
        &mut self,
        round: Round,
        (contributions, asked): (&[Contribution<'_>], &[&[u32]]),
        world: &World,
    ) {
        let Some(spec) = self.spec.filter(|spec| spec.is_due(round)) else {
            return;
        };
        let looked_at: Vec<(&Contribution<'_>, &[u32])> = contributions
            .iter()
            .zip(asked.iter().copied())
            .filter(|(contribution, _)| contribution.user.0 < spec.users)
            .collect();
        let found: Vec<Found<'_>> = looked_at
            .par_iter()
            .filter_map(|(contribution, asked)| find(contribution, asked, world))
            .collect();
        for found in found {
            for (name, of_upload) in &found.tables {
                let table = self.tables.entry((*name).to_owned()).or_default();
                table.add(found.user, of_upload, world.dataset.items());
            }
            if let Some(share) = found.largest_eigenvalue {
                self.outer_products += 1;
                self.largest_eigenvalues += share;
            }
        }
    }

    /// Returns what was found in `round`, and begins the next one; `None` if nothing was looked at and
    /// nothing is guessed from all uploads so far. Of several tables it is what the one says that
    /// tells the most: an attacker knows the method. Guesses from all uploads so far are made after
    /// rounds whose number is a power of two, and after the last one.
    pub(crate) fn end_round(&mut self, round: Round, world: &World) -> Option<AuditRecord> {
        self.spec.filter(|spec| spec.is_due(round))?;
        let number = round.0 + 1;
        let links = number.is_power_of_two() || number == world.scenario.training.rounds;
        let tables = self.tables.values().filter(|_| links);
        let linked = most_telling(tables.filter_map(|table| table.link(world)));
        let sums = self
            .tables
            .values_mut()
            .map(|table| std::mem::take(&mut table.sums));
        let found = sums.filter(|sums| sums.users > 0);
        let found = found.map(|sums| (mean(&sums.figures, sums.users), sums.users));
        let single = found.max_by(|one, other| compare(&one.0, &other.0));
        let (products, eigenvalues) = (
            std::mem::take(&mut self.outer_products),
            std::mem::take(&mut self.largest_eigenvalues),
        );
        // The uploads of this round may have had no item table, unlike earlier ones.
        let ([presence, norm, against_mean], users) = match single {
            Some(single) => single,
            None => ([AuditFigures::NOTHING; SCORES], linked.map(|_| 0)?),
        };
        Some(AuditRecord {
            users,
            presence,
            norm,
            against_mean,
            linked,
            outer_product: (products > 0).then(|| eigenvalues / products as f64),
        })
    }

    /// Appends the findings on users to `archive`, at the end of a round.
    pub(crate) fn save(&self, archive: &mut Archive) {
        let linked = self
            .tables
            .iter()
            .map(|(name, table)| (name, &table.linked));
        archive.put(&linked.collect::<BTreeMap<_, _>>());
    }

    /// Reads what [`Self::save`] appended.
    ///
    /// # Errors
    /// As [`ArchiveReader::take`].
    pub(crate) fn restore(&mut self, archive: &mut ArchiveReader, world: &World) -> Result<()> {
        let linked: BTreeMap<String, BTreeMap<UserId, Linked>> = archive.take()?;
        let mut scores = linked.values().flat_map(BTreeMap::values);
        let items = world.dataset.items();
        if !scores.all(|linked| linked.scores.iter().all(|scores| scores.len() == items)) {
            return Err(damaged("scores of other items"));
        }
        let of_table = |linked| OfTable {
            linked,
            sums: Sums::default(),
        };
        self.tables = linked
            .into_iter()
            .map(|(name, linked)| (name, of_table(linked)))
            .collect();
        Ok(())
    }
}

impl OfTable {
    /// Adds what was found in an upload.
    fn add(&mut self, user: UserId, found: &OfUpload, items: usize) {
        if let Some(figures) = &found.figures {
            self.sums.users += 1;
            add_figures(&mut self.sums.figures, figures);
        }
        let linked = self.linked.entry(user).or_default();
        linked.uploads += 1;
        for (place, sums) in linked.scores.iter_mut().enumerate() {
            sums.resize(items, 0.0);
            for (row, scores) in &found.rows {
                sums[*row as usize] += scores[place] - UNCHANGED[place];
            }
        }
    }

    /// Guesses from all uploads of each user so far.
    fn link(&self, world: &World) -> Option<[AuditFigures; SCORES]> {
        let users: Vec<(&UserId, &Linked)> = self.linked.iter().collect();
        let of_users: Vec<[AuditFigures; SCORES]> = users
            .par_iter()
            .filter_map(|(user, linked)| linked.figures(world.dataset.train_items(**user)))
            .collect();
        let mut sums = [AuditFigures::default(); SCORES];
        of_users
            .iter()
            .for_each(|of_user| add_figures(&mut sums, of_user));
        (!of_users.is_empty()).then(|| mean(&sums, of_users.len() as u64))
    }
}

impl Linked {
    /// Returns how well the sums of the scores tell `rated` items (ascending) from others.
    fn figures(&self, rated: &[u32]) -> Option<[AuditFigures; SCORES]> {
        let mut all = [None; SCORES];
        for (scores, found) in self.scores.iter().zip(&mut all) {
            let mut scored: Vec<(f32, bool)> = scores.iter().map(|score| (*score, false)).collect();
            for item in rated {
                scored.get_mut(*item as usize)?.1 = true;
            }
            *found = figures(&groups(&mut scored, Group { rated: 0, all: 0 }));
        }
        let [presence, norm, against_mean] = all;
        Some([presence?, norm?, against_mean?])
    }
}

fn add_figures(sums: &mut [AuditFigures; SCORES], figures: &[AuditFigures; SCORES]) {
    sums.iter_mut()
        .zip(figures)
        .for_each(|(sum, figures)| *sum += *figures);
}

/// Returns the guesses that tell the most of those from several tables.
fn most_telling(
    guesses: impl Iterator<Item = [AuditFigures; SCORES]>,
) -> Option<[AuditFigures; SCORES]> {
    guesses.max_by(compare)
}

/// Compares guesses by their highest AUC.
fn compare(one: &[AuditFigures; SCORES], other: &[AuditFigures; SCORES]) -> Ordering {
    let [one, other] = [one, other].map(|guesses| AuditFigures::best(*guesses).auc);
    one.total_cmp(&other)
}

fn mean(sums: &[AuditFigures; SCORES], count: u64) -> [AuditFigures; SCORES] {
    sums.map(|sum| AuditFigures {
        auc: sum.auc / count as f64,
        precision: sum.precision / count as f64,
    })
}

/// Looks at the item tables of floating-point numbers in one upload, and at the rows that its sender
/// has asked for; `None` if there is no such table.
fn find<'a>(contribution: &Contribution<'_>, asked: &[u32], world: &'a World) -> Option<Found<'a>> {
    let layout = world.upload_layout(contribution.phase, contribution.user);
    let is_table = |block: &BlockLayout| {
        block.kind == BlockKind::ItemTable
            && block.value_type == ValueType::F32
            && block.shape.rows == world.dataset.items()
    };
    let blocks = layout.blocks().iter().zip(&contribution.update.blocks);
    let tables = blocks.enumerate().filter(|(_, (block, _))| is_table(block));
    let first = tables.clone().next()?.0;
    let rated = world.dataset.train_items(contribution.user);
    let look = |(block, update): (&'a BlockLayout, &TableUpdate)| {
        // A row that a frame lists is there to be seen, even if it is unchanged.
        let listed: &[u32] = match &update.rows {
            RowSet::Listed(rows) if world.scenario.codec.lists_touched_rows_of(&block.name) => rows,
            _ => &[],
        };
        let mut rows = changed_rows(update, contribution.received.base_of(block));
        add_present(&mut rows, asked);
        add_present(&mut rows, listed);
        let figures = of_upload(&rows, rated, world.dataset.items());
        (&*block.name, OfUpload { rows, figures })
    };
    Some(Found {
        user: contribution.user,
        tables: tables.map(|(_, table)| look(table)).collect(),
        largest_eigenvalue: outer_product(layout, &contribution.update.blocks, first),
    })
}

/// Returns how well the scores of an upload tell `rated` items (ascending) from others.
fn of_upload(changed: &ChangedRows, rated: &[u32], items: usize) -> Option<[AuditFigures; SCORES]> {
    let mut distinct = rated.to_vec();
    distinct.dedup();
    let is_rated = |row: &u32| distinct.binary_search(row).is_ok();
    let rated_rows = changed.iter().filter(|(row, _)| is_rated(row)).count();
    let rest = Group {
        rated: (distinct.len() - rated_rows) as u64,
        all: (items - changed.len()) as u64,
    };
    let by = |place: usize| {
        let score = |(row, scores): &(u32, [f32; SCORES])| (scores[place], is_rated(row));
        let mut scored: Vec<(f32, bool)> = changed.iter().map(score).collect();
        figures(&groups(&mut scored, rest))
    };
    Some([by(0)?, by(1)?, by(2)?])
}

/// Returns the share of the largest eigenvalue in the trace of a block that has as many values as
/// the upper triangle of an outer product of a row of the item table; `None` if there is no such
/// block. It is 1 if the block gives the vector away up to its sign.
fn outer_product(layout: &Layout, blocks: &[TableUpdate], table: usize) -> Option<f64> {
    let size = layout.blocks()[table].shape.dimension;
    let is_triangle = |block: &BlockLayout| {
        block.kind == BlockKind::Weights
            && block.value_type == ValueType::F32
            && block.shape.values() == size * (size + 1) / 2
    };
    let place = layout.blocks().iter().position(is_triangle)?;
    let bytes = blocks[place].to_whole_bytes(None).ok()?;
    let mut values = floats(&bytes);
    let mut matrix = Array2::zeros((size, size));
    for row in 0..size {
        for column in row..size {
            let value = f64::from(values.next()?);
            (matrix[(row, column)], matrix[(column, row)]) = (value, value);
        }
    }
    let trace = matrix.diag().sum();
    let eigen = symmetric_eigen(&matrix.view()).ok()?;
    (trace > 0.0).then(|| eigen.values[0] / trace)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn changed(rows: &[u32], score: impl Fn(u32) -> f32) -> ChangedRows {
        let scores = |row: &u32| (*row, [1.0, score(*row), score(*row)]);
        rows.iter().map(scores).collect()
    }

    /// If this fails, the audit does not tell an upload that gives everything away from one that
    /// gives nothing away.
    #[test]
    fn planted_uploads_have_the_answers_that_are_known() {
        let rated = [3, 4, 9, 11];
        // Every row is sent, and all alike.
        let everything = changed(&(0..20).collect::<Vec<_>>(), |_| 1.0);
        for figures in of_upload(&everything, &rated, 20).unwrap() {
            assert_eq!((figures.auc, figures.precision), (0.5, 0.2));
        }
        // The rated rows alone are sent.
        let positives = changed(&rated, |row| row as f32);
        for figures in of_upload(&positives, &rated, 20).unwrap() {
            assert_eq!((figures.auc, figures.precision), (1.0, 1.0));
        }
        // Rated and other rows are sent; the rated ones have moved the most.
        let moved = changed(&[3, 4, 5, 6, 7, 9, 10, 11], |row| {
            if rated.contains(&row) { 2.0 } else { 1.0 }
        });
        let [presence, norm, _] = of_upload(&moved, &rated, 20).unwrap();
        assert_eq!((presence.auc, presence.precision), (0.875, 0.5));
        assert_eq!((norm.auc, norm.precision), (1.0, 1.0));
    }

    /// If this fails, the audit of FedTide goes by what a user took last, which is nothing for most, or
    /// that of FedSpec by a table whose rows have all been moved by noise.
    #[test]
    fn the_table_that_tells_the_most_is_reported() {
        let of = |auc| {
            [AuditFigures {
                auc,
                precision: 0.1,
            }; SCORES]
        };
        assert_eq!(
            most_telling([0.5, 0.9, 0.6].map(of).into_iter()),
            Some(of(0.9))
        );
        assert_eq!(
            most_telling([0.5, 0.1, 0.6].map(of).into_iter()),
            Some(of(0.1))
        );
        assert_eq!(most_telling(std::iter::empty()), None);
    }

    /// If this fails, the audit does not see what several uploads of a user have in common.
    #[test]
    fn items_that_come_again_and_again_are_the_rated_ones() {
        let rated = [2, 7];
        let mut table = OfTable::default();
        for others in [[0u32, 4], [1, 9], [3, 5], [6, 8]] {
            let mut rows = [&rated[..], &others].concat();
            rows.sort_unstable();
            let rows = changed(&rows, |_| 1.0);
            let figures = of_upload(&rows, &rated, 10);
            assert!(figures.unwrap()[0].auc < 1.0);
            table.add(UserId(1), &OfUpload { rows, figures }, 10);
        }
        let [presence, norm, _] = table.linked[&UserId(1)].figures(&rated).unwrap();
        assert_eq!(
            (presence.auc, presence.precision, norm.auc),
            (1.0, 1.0, 1.0)
        );
        assert_eq!(table.linked[&UserId(1)].uploads, 4);
    }
}
