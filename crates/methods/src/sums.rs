//! Adds up what devices send, for servers that step by the sums of uploads and not by the rules of
//! blocks.

use std::collections::BTreeSet;

use ndarray::ArrayView2;

use super::averager::Averager;
use super::row_counts::COUNTS;
use super::server::{
    Accumulator, Contribution, Download, Server, StepContext, StepReport, UploadUse, downcast,
};
use fedrecsim_core::{Result, UserId};
use fedrecsim_model::magnitude::MagnitudeCounts;
use fedrecsim_model::table::{TableShape, TableUpdate, floats};
use fedrecsim_model::{Layout, Model, StateVisitor, per_instruction_set};

/// Holds the sums of uploads, in the order of the calls of [`Accumulator::absorb`].
#[derive(Clone, Debug)]
pub(crate) struct UploadSums {
    /// The layout of uploads.
    pub layout: Layout,
    /// The sums of the values of each block, row after row, but for what uploads say of themselves.
    pub blocks: Vec<Vec<f64>>,
    /// For each row of the first block, the sum of the weights of those who sent it. With noise on
    /// the counts that devices send, it may be negative.
    pub senders: Vec<f64>,
    /// The sum of the weights of all uploads, clipped ones included. With noise it may be negative.
    pub participants: f64,
    /// The number of uploads.
    pub uploads: f64,
    /// The values of the first block that the first sender received.
    pub received: Vec<f32>,
    /// The users whose uploads are in the sums, where each counts once.
    pub users: BTreeSet<UserId>,
    /// The users whose uploads do not count any more; `None` where all do.
    known: Option<BTreeSet<UserId>>,
    ignores_policy: bool,
    /// The magnitudes of all values that were sent for these blocks.
    pub magnitudes: MagnitudeCounts,
}

impl UploadSums {
    /// Makes empty sums of uploads of this layout.
    pub(crate) fn of(layout: &Layout) -> Self {
        let told = layout.position(COUNTS).unwrap_or(layout.blocks().len());
        let blocks = layout.blocks()[..told].iter();
        let blocks: Vec<_> = blocks
            .map(|block| vec![0.0; block.shape.values()])
            .collect();
        Self {
            blocks,
            senders: vec![0.0; layout.blocks()[0].shape.rows],
            layout: layout.clone(),
            participants: 0.0,
            uploads: 0.0,
            received: Vec::new(),
            users: BTreeSet::new(),
            known: None,
            ignores_policy: false,
            magnitudes: MagnitudeCounts::default(),
        }
    }

    /// Counts every upload as 1, without its weight by the run's policy. If uploads say nothing of
    /// themselves, only the first one of each user counts, and none of the users `known`.
    pub(crate) fn one_for_each_user(self, known: &BTreeSet<UserId>) -> Self {
        Self {
            known: (!self.are_told()).then(|| known.clone()),
            ignores_policy: true,
            ..self
        }
    }

    /// Returns whether uploads list their rows and state their weight in the sums
    /// ([`Counts::RowsAndSender`](super::declare::Counts::RowsAndSender)).
    fn are_told(&self) -> bool {
        self.blocks.len() < self.layout.blocks().len()
    }

    /// Returns the sums of the first block as a matrix.
    pub(crate) fn matrix(&self) -> ArrayView2<'_, f64> {
        let TableShape { rows, dimension } = self.layout.blocks()[0].shape;
        // There are as many sums as the block has values.
        ArrayView2::from_shape((rows, dimension), &self.blocks[0])
            .unwrap_or_else(|fault| unreachable!("{fault}"))
    }

    /// Returns the share of the participants who sent each row, which is not negative.
    pub(crate) fn shares(&self) -> Vec<f32> {
        let share = |senders: &f64| (senders.max(0.0) / self.participants) as f32;
        self.senders.iter().map(share).collect()
    }

    /// Returns the number of rows that the mean participant sent.
    pub(crate) fn mean_rows(&self) -> f32 {
        (self.senders.iter().sum::<f64>() / self.participants) as f32
    }

    /// Adds what other sums have absorbed.
    pub(crate) fn add(&mut self, other: Self) {
        for (sums, more) in self.blocks.iter_mut().zip(&other.blocks) {
            add(sums, more);
        }
        add(&mut self.senders, &other.senders);
        self.participants += other.participants;
        self.uploads += other.uploads;
        if self.received.is_empty() {
            self.received = other.received;
        }
        self.users.extend(other.users);
        self.magnitudes.add_times(&other.magnitudes, 1);
    }

    /// Visits the sums as state.
    ///
    /// # Errors
    /// As [`StateVisitor::values`].
    pub(crate) fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        state.plain(&mut self.blocks)?;
        state.plain(&mut self.senders)?;
        state.plain(&mut self.participants)?;
        state.plain(&mut self.uploads)?;
        state.plain(&mut self.users)?;
        state.plain(&mut self.received)
    }
}

/// Adds `more` to `sums`.
fn add(sums: &mut [f64], more: &[f64]) {
    for (sum, value) in sums.iter_mut().zip(more) {
        *sum += value;
    }
}

/// Adds `weight` times the rows of an upload to `sums`, and gives `sent` each row that is not all
/// zeros. A dense frame has zeros in the rows that the sender left out.
fn add_rows(sums: &mut [f64], upload: &TableUpdate, weight: f64, mut sent: impl FnMut(usize)) {
    let width = upload.shape.dimension;
    for (row, bytes) in upload.iter() {
        if floats(bytes).any(|value| value != 0.0) {
            sent(row);
            add_row(&mut sums[row * width..(row + 1) * width], bytes, weight);
        }
    }
}

per_instruction_set! {
    /// Adds `weight` times the values that `bytes` holds to `sums`.
    fn add_row(sums: &mut [f64], bytes: &[u8], weight: f64) {
        for (sum, value) in sums.iter_mut().zip(bytes.as_chunks().0) {
            *sum += weight * f64::from(f32::from_le_bytes(*value));
        }
    }
}

impl Accumulator for UploadSums {
    fn absorb(&mut self, contributions: &[Contribution<'_>]) -> Result<()> {
        let is_told = self.are_told();
        for contribution in contributions {
            contribution.update.check(&self.layout)?;
            if let Some(known) = &self.known
                && (known.contains(&contribution.user) || !self.users.insert(contribution.user))
            {
                continue;
            }
            let weight = match self.ignores_policy {
                true => 1.0,
                false => contribution.weight,
            };
            let (blocks, told) = contribution.update.blocks.split_at(self.blocks.len());
            for (at, (sums, block)) in self.blocks.iter_mut().zip(blocks).enumerate() {
                add_rows(sums, block, weight, |row| {
                    if at == 0 && !is_told {
                        self.senders[row] += weight;
                    }
                });
                self.magnitudes.add_bytes(&block.values);
            }
            match told {
                [counts, participants] => {
                    add_rows(&mut self.senders, counts, weight, |_| {});
                    let itself = std::slice::from_mut(&mut self.participants);
                    add_rows(itself, participants, weight, |_| {});
                }
                _ => self.participants += weight,
            }
            self.uploads += 1.0;
            if self.received.is_empty() {
                self.received = contribution.received.table(0).as_slice().to_vec();
            }
        }
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) -> Result<()> {
        self.add(*downcast::<Self>(other)?);
        Ok(())
    }
}

/// Steps a model by the sums of uploads.
pub(crate) trait StepBySums: Send + 'static {
    /// Returns empty sums of uploads of this layout.
    fn sums(&self, upload: &Layout) -> UploadSums {
        UploadSums::of(upload)
    }

    /// Makes a step of the model, and returns the number of multiply-adds that it takes.
    ///
    /// # Errors
    /// As [`Server::step`].
    fn step(&mut self, model: &mut Model, sums: UploadSums, step: &StepContext<'_>) -> Result<u64>;

    /// Completes a model that the server is given.
    ///
    /// # Errors
    /// An error of the method.
    fn adopted(&self, model: Model) -> Result<Model> {
        Ok(model)
    }

    /// Visits what the server keeps besides the model.
    ///
    /// # Errors
    /// As [`StateVisitor::values`].
    fn visit_state(&mut self, _state: &mut StateVisitor<'_>) -> Result<()> {
        Ok(())
    }

    /// Forgets what belongs to the run that is over, as [`Server::begin_anew`].
    fn begin_anew(&mut self) {}
}

/// The server that steps by sums.
pub(crate) struct SumServer<S> {
    model: Model,
    upload: Layout,
    stepper: S,
}

impl<S: StepBySums> SumServer<S> {
    /// Makes the server with the model and the uploads of `averager`.
    pub(crate) fn boxed(averager: &Averager, stepper: S) -> Box<dyn Server> {
        Box::new(Self {
            model: averager.model().clone(),
            upload: averager.upload_layout().clone(),
            stepper,
        })
    }
}

impl<S: StepBySums> Server for SumServer<S> {
    fn model(&self) -> &Model {
        &self.model
    }

    fn set_model(&mut self, model: Model) -> Result<()> {
        self.model.check_same_layout(&model)?;
        self.model = self.stepper.adopted(model)?;
        Ok(())
    }

    fn download(&self) -> Download {
        Download::Shared(self.model.clone())
    }

    fn upload_use(&self) -> UploadUse {
        match UploadSums::of(&self.upload).are_told() {
            true => UploadUse::Sum,
            false => UploadUse::Each,
        }
    }

    fn accumulator(&self) -> Box<dyn Accumulator> {
        Box::new(self.stepper.sums(&self.upload))
    }

    fn step(&mut self, sums: Box<dyn Accumulator>, step: &StepContext<'_>) -> Result<StepReport> {
        let sums = *downcast::<UploadSums>(sums)?;
        let uploads = sums.magnitudes;
        let multiply_adds = self.stepper.step(&mut self.model, sums, step)?;
        Ok(StepReport {
            uploads,
            multiply_adds,
            ..StepReport::default()
        })
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        self.stepper.visit_state(state)
    }

    fn begin_anew(&mut self) {
        self.stepper.begin_anew();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::row_counts::{Counts, said_layouts, said_of};
    use fedrecsim_core::InvitationId;
    use fedrecsim_model::BlockLayout;
    use fedrecsim_model::ModelUpdate;
    use fedrecsim_model::Table;

    const SHAPE: TableShape = TableShape::new(3, 2);

    fn layout(counts: Counts) -> Layout {
        let rows = BlockLayout::item_table("rows", SHAPE).statistic();
        let blocks = [rows].into_iter().chain(said_layouts(counts, SHAPE.rows));
        Layout::new(blocks.collect())
    }

    fn rows(listed: &[u32], values: &[f32]) -> TableUpdate {
        TableUpdate::listed(SHAPE, listed.to_vec(), values, 1.0).unwrap()
    }

    fn absorb(sums: &mut UploadSums, user: u32, blocks: Vec<TableUpdate>, weight: f64) -> bool {
        let update = ModelUpdate::of_blocks(blocks);
        let received = Model::of_table("V", Table::zeros(SHAPE));
        let fresh = Contribution::fresh(UserId(user), InvitationId(0), &update, &received);
        sums.absorb(&[Contribution { weight, ..fresh }]).is_ok()
    }

    /// If this fails, a row that a dense frame has filled with zeros counts as sent, or sums of two
    /// peers are not those of all.
    #[test]
    fn rows_and_their_senders_are_added_up_by_weight() {
        let no_sums = || UploadSums::of(&layout(Counts::Nothing));
        let (mut sums, mut second) = (no_sums(), no_sums());
        absorb(
            &mut sums,
            0,
            vec![rows(&[0, 1], &[0.0, 0.0, 2.0, 4.0])],
            0.5,
        );
        assert_eq!(sums.magnitudes.values, 4);
        assert_eq!(sums.blocks, [[0.0, 0.0, 1.0, 2.0, 0.0, 0.0]]);
        assert_eq!(
            (&sums.senders, sums.participants),
            (&vec![0.0, 0.5, 0.0], 0.5)
        );
        absorb(
            &mut second,
            1,
            vec![rows(&[1, 2], &[1.0, 1.0, 3.0, 0.0])],
            1.0,
        );
        sums.merge(Box::new(second)).unwrap();
        assert_eq!(sums.blocks, [[0.0, 0.0, 2.0, 3.0, 3.0, 0.0]]);
        assert_eq!(
            (&sums.senders, sums.participants),
            (&vec![0.0, 1.5, 1.0], 1.5)
        );
        assert_eq!((sums.mean_rows(), sums.shares()[1]), (2.5 / 1.5, 1.0));
        let other = TableUpdate::listed(TableShape::new(4, 2), vec![3], &[1.0, 1.0], 1.0);
        assert!(
            !absorb(&mut sums, 2, vec![other.unwrap()], 1.0),
            "another shape"
        );
    }

    /// If this fails, a server counts rows in another way than the devices that say what they have
    /// sent.
    #[test]
    fn what_the_sender_counts_stands_in_place_of_the_rows_that_arrive() {
        let mut sums = UploadSums::of(&layout(Counts::RowsAndSender));
        let sent = [
            vec![rows(&[0, 1], &[0.0, 0.0, 2.0, 4.0])],
            said_of(Counts::RowsAndSender, 3, &[0, 2]).unwrap(),
        ];
        absorb(&mut sums, 0, sent.concat(), 2.0);
        assert_eq!(sums.blocks, [[0.0, 0.0, 4.0, 8.0, 0.0, 0.0]]);
        assert_eq!(
            (&sums.senders, sums.participants),
            (&vec![2.0, 0.0, 2.0], 2.0)
        );
        assert!(
            !absorb(&mut sums, 1, vec![rows(&[], &[])], 1.0),
            "it says nothing of itself"
        );
    }

    /// If this fails, a user counts twice whose second upload a server can tell, or is left out of
    /// a sum that does not say who is in it.
    #[test]
    fn a_user_counts_once_where_uploads_tell_nothing() {
        for (counts, uploads) in [(Counts::Nothing, 1.0), (Counts::RowsAndSender, 3.0)] {
            let known = BTreeSet::from([UserId(7)]);
            let mut sums = UploadSums::of(&layout(counts)).one_for_each_user(&known);
            for user in [1, 7, 1] {
                let said = said_of(counts, 3, &[1]).unwrap();
                absorb(
                    &mut sums,
                    user,
                    [vec![rows(&[1], &[1.0, 1.0])], said].concat(),
                    0.5,
                );
            }
            assert_eq!((sums.uploads, sums.participants), (uploads, uploads));
        }
    }
}
