//! Makes the record of a run from what the simulation leaves.

use super::groups::groups;
use super::record::{
    CarbonRecord, Energy, FORMAT, LossTotals, NetworkSummary, ParticipationTotals, RunRecord, Wall,
};
use super::setup;
use fedrecsim_core::Error;
use fedrecsim_scenario::Scenario;
use fedrecsim_sim::Stop;
use fedrecsim_sim::checkpoint::{self, Program};
use fedrecsim_sim::outcome::{AuditRecord, Outcome};

impl RunRecord {
    /// Returns the record of a run of `scenario`, and why the run failed, if it did: what stopped
    /// it before its last round, or that it learned nothing.
    ///
    /// `command` is the command line that repeats the run, the program's name included; it may be
    /// empty.
    pub fn of(
        scenario: Scenario,
        outcome: Outcome,
        wall: Wall,
        command: Vec<String>,
        program: &Program,
    ) -> (Self, Option<Error>) {
        let selected = outcome.selected.map(|position| &outcome.rounds[position]);
        let last = outcome.rounds.last();
        let carbon = CarbonRecord::of(&scenario, &outcome);
        let users = outcome.users.as_deref().unwrap_or_default();
        let all = outcome.rounds.iter().chain([&outcome.unfinished]);
        let record = Self {
            format: FORMAT,
            user_groups: groups(users, &scenario.evaluation),
            name: scenario.name.clone(),
            seed: scenario.seed,
            digest: outcome.digest,
            state_digest: outcome.state_digest,
            rounds: outcome.rounds.len() as u32,
            complete: outcome.stopped_by.is_none(),
            stopped_by: outcome.stopped_by.as_ref().map(ToString::to_string),
            learned_nothing: outcome.learned_nothing,
            uploads_were_empty: outcome.uploads_were_empty,
            selected_round: selected.map(|round| round.round),
            accuracy: selected
                .and_then(|round| round.accuracy.clone())
                .unwrap_or_default(),
            protocol: setup::protocol(&scenario, outcome.draws_negatives),
            draws_negatives: outcome.draws_negatives,
            baselines: outcome.baselines,
            beyond_accuracy: outcome.beyond_accuracy,
            newcomers: outcome.newcomers,
            participations: ParticipationTotals::of(all.clone()),
            losses: LossTotals::of(all, &scenario.faults),
            network: NetworkSummary::of(&outcome.network, &scenario.network),
            device_bytes: outcome.device_bytes,
            per_user: outcome.users,
            per_item: outcome.items,
            work: outcome.work,
            energy: Energy::of(
                &scenario.devices,
                &outcome.bytes,
                (outcome.work, outcome.metered),
            ),
            server_energy_j: (scenario.server.power_w)
                .map(|power_w| power_w * last.map_or(0.0, |round| round.virtual_time_s)),
            carbon,
            bytes: outcome.bytes,
            third_party_bytes: outcome.third_party_bytes,
            inference_bytes: selected.and_then(|round| round.inference_bytes),
            privacy: outcome.rounds.last().and_then(|round| round.privacy),
            audit: AuditRecord::over(outcome.rounds.iter().filter_map(|round| round.audit)),
            audited_rounds: outcome
                .rounds
                .iter()
                .filter(|round| round.audit.is_some_and(|audit| audit.users > 0))
                .count() as u32,
            versions_cost: outcome.rounds.last().and_then(|round| round.versions),
            virtual_time_s: outcome
                .rounds
                .last()
                .map_or(0.0, |round| round.virtual_time_s),
            durations: outcome.durations,
            size: outcome.size,
            policy: outcome.policy,
            per_round: outcome.rounds,
            scenario,
            warnings: Vec::new(),
            command,
            versions: program.versions(),
            executable: checkpoint::executable_digest(),
            other_builds: Vec::new(),
            wall,
        };
        let learned_nothing = record.learned_nothing.then(|| {
            Error::from(Stop::NothingLearned {
                rounds: record.rounds,
                participations: record.participations.invited,
                uploads_were_empty: record.uploads_were_empty,
            })
        });
        (record, outcome.stopped_by.or(learned_nothing))
    }
}
