//! Figures beyond accuracy: what the lists of all users together are like.

use super::evaluation::UserAccuracy;
use super::outcome::BeyondAccuracy;
use super::shown::Shown;
use super::world::World;
use fedrecsim_core::metric::{ListSums, PopularityGroup};

/// Returns the figures of the lists among `accuracies`, added in their order; `None` if there are none.
pub(crate) fn beyond_accuracy<'a>(
    accuracies: impl IntoIterator<Item = &'a UserAccuracy>,
    world: &World,
) -> Option<BeyondAccuracy> {
    let mut shown = accuracies
        .into_iter()
        .filter_map(UserAccuracy::shown)
        .peekable();
    // Most rounds have no lists, and need not know how popular items are.
    shown.peek()?;
    let popularity = world.popularity();
    let mut method = ListSums::new(popularity);
    let mut popular = method.clone();
    let (mut users, mut with_history, mut tail_shares) = (0, 0u32, 0.0);
    for Shown {
        own,
        popular: of_popularity,
        history,
    } in shown
    {
        users += 1;
        method.add(own, *history);
        popular.add(of_popularity, *history);
        let ratings: f64 = history.iter().copied().map(f64::from).sum();
        if ratings > 0.0 {
            with_history += 1;
            tail_shares += f64::from(history[PopularityGroup::Tail as usize]) / ratings;
        }
    }
    let all = popularity.group_counts(popularity.order().iter().copied());
    Some(BeyondAccuracy {
        list_length: world.metric_set.list_length,
        users,
        long_tail_items: all[PopularityGroup::Tail as usize].into(),
        history_long_tail_share: (with_history > 0).then(|| tail_shares / f64::from(with_history)),
        method: method.figures()?,
        popularity: popular.figures()?,
    })
}
