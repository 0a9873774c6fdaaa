//! The words of an answer.

use super::grounds;
use super::names::JOINT;
use super::standing::{Figure, Over, Question};
use crate::metrics;
use crate::reference::{POPULARITY, in_words};
use crate::words::{first_large, short};
use fedrecsim_core::metric::{Better, Metric, Needs};

/// The most names that a sentence has. The others of a list stand below it.
const MOST_NAMES: usize = 8;

/// The number of arms from which the best one is too good by being chosen.
const MANY_ARMS: usize = 10;

/// The most classes of arms that have a sentence each.
const MOST_CLASSES: usize = 6;

/// Returns the answer in a sentence, and what has to be known besides. The arms of a class are ranked;
/// those of one cannot be compared with those of another.
pub(super) fn of(question: &Question<'_>, classes: &[Vec<usize>]) -> Option<(String, Vec<String>)> {
    let [first, others @ ..] = classes else {
        return None;
    };
    let (sentence, mut more) = question.of_class(first);
    if others.is_empty() {
        more.extend(question.intervals(first));
        more.extend(question.left_out());
        return Some((sentence, vec![more.join(" ")]));
    }
    let count = classes.len();
    let all = classes.iter().take(MOST_CLASSES).map(|class| {
        let (sentence, more) = question.of_class(class);
        let all: Vec<String> = std::iter::once(sentence).chain(more).collect();
        format!(
            "{}: {}",
            grounds::class_name(question.grounds, class, classes),
            question.within(all.join(" "))
        )
    });
    let mut more: Vec<String> = all.collect();
    if count > MOST_CLASSES {
        more.push(format!(
            "The other {} stand in the table.",
            count - MOST_CLASSES
        ));
    }
    more.extend(question.intervals(first));
    more.extend(question.left_out());
    let sentence = format!(
        "The arms are judged in {count} ways, and only those that are judged alike can be compared."
    );
    Some((sentence, more))
}

impl Question<'_> {
    /// Returns what is found of arms that can be compared, the best of which is the first. A protocol
    /// that leaks is named before everything else.
    fn of_class(&self, ranked: &[usize]) -> (String, Vec<String>) {
        let leak = |arm: &usize| self.grounds[*arm].as_ref().and_then(|of| of.leak);
        let popularity = self.popularity(ranked);
        let (leaking, honest): (Vec<usize>, Vec<usize>) =
            ranked.iter().partition(|arm| leak(arm).is_some());
        let is_method = |arm: &&usize| Some(**arm) != popularity;
        let Some(why) = ranked.first().and_then(leak) else {
            return (self.told(ranked), self.besides(ranked));
        };
        if honest.iter().filter(is_method).count() == 0 {
            let told = self.within(self.told(ranked));
            let told = format!("By a protocol that leaks ({why}): {told}");
            return (told, self.besides(ranked));
        }
        let value = self.value(leaking[0]).map(|value| range(&value));
        let told = self.within(self.told(&honest));
        let sentence = format!(
            "{} leads by a protocol that leaks ({why}): {} {}. Without it, {}",
            self.list(&leaking[..1]),
            self.label(),
            value.unwrap_or_default(),
            told
        );
        (sentence, self.besides(&honest))
    }

    /// Returns a sentence as it stands within another one. A name at its beginning stays as it is.
    fn within(&self, sentence: String) -> String {
        let whom = self.whom();
        for (first, word) in [
            ("No arm", "no arm"),
            ("Nothing", "nothing"),
            ("Popularity", POPULARITY),
        ] {
            if let Some(rest) = sentence.strip_prefix(first) {
                return format!("{word}{rest}");
            }
        }
        match sentence.strip_prefix(&first_large(whom)) {
            Some(rest) => format!("{whom}{rest}"),
            None => sentence,
        }
    }

    /// Returns the arms that have no place beside the others, and why.
    fn left_out(&self) -> Vec<String> {
        let arms = 0..self.results.arms.len();
        let without_value = arms.filter(|arm| self.value(*arm).is_none());
        let (unfinished, others): (Vec<usize>, Vec<usize>) =
            without_value.partition(|arm| self.results.arms[*arm].reports().next().is_none());
        let told = |arms: &[usize], what: String| {
            let verb = if arms.len() == 1 { "has" } else { "have" };
            (!arms.is_empty()).then(|| format!("{} {verb} {what}.", self.all(arms)))
        };
        let unfinished = told(&unfinished, "no finished run".to_owned());
        let others = told(&others, format!("no {}", self.label()));
        unfinished.into_iter().chain(others).collect()
    }

    /// Returns what the sentence on these arms leaves to be said of single ones.
    fn besides(&self, ranked: &[usize]) -> Vec<String> {
        let mut told = self.unnamed(ranked);
        told.extend(self.below(ranked));
        told.extend(self.like_popularity(ranked));
        told
    }

    /// Returns the arms that the difference to the best one may be none of.
    fn rivals(&self, ranked: &[usize]) -> Vec<usize> {
        let [top, others @ ..] = ranked else {
            return Vec::new();
        };
        let is_rival = |arm: &&usize| {
            self.more_than(*top, **arm)
                .is_some_and(|of| of.may_be_none() || of.mean == 0.0)
        };
        others.iter().filter(is_rival).copied().collect()
    }

    /// Returns the names of the arms that the sentence counts alone.
    fn unnamed(&self, ranked: &[usize]) -> Vec<String> {
        let more = ranked
            .first()
            .and_then(|top| self.more_than_reference(*top, ranked));
        if more.is_some_and(|of| self.better().compare(of.mean, 0.0).is_lt()) {
            return Vec::new();
        }
        let rivals = self.rivals(ranked);
        let is_of_popularity = ranked.first().copied() == self.popularity(ranked);
        let named = MOST_NAMES - usize::from(!is_of_popularity);
        let others = rivals.get(named..).unwrap_or_default();
        let (verb, noun) = if others.len() == 1 {
            ("is", "other")
        } else {
            ("are", "others")
        };
        let told = format!(
            "The {noun} that cannot be told apart {verb} {}.",
            self.all(others)
        );
        (!others.is_empty()).then_some(told).into_iter().collect()
    }

    /// Returns that arms cannot be told from popularity, if the sentence has not said it of them.
    fn like_popularity(&self, ranked: &[usize]) -> Vec<String> {
        let popularity = self.popularity(ranked);
        let mut said: Vec<usize> = ranked.first().copied().into_iter().collect();
        let rivals = self.rivals(ranked);
        if popularity.is_some_and(|arm| said.contains(&arm) || rivals.contains(&arm)) {
            said.extend(rivals);
        }
        let is_like = |arm: &&usize| {
            let more = self.more_than_reference(**arm, ranked);
            !said.contains(arm) && more.is_some_and(|of| of.may_be_none())
        };
        let like: Vec<usize> = ranked.iter().filter(is_like).copied().collect();
        let told = format!("{} cannot be told from {}.", self.all(&like), self.whom());
        (!like.is_empty()).then_some(told).into_iter().collect()
    }

    /// Returns the sentence on arms of which none has an advantage by the protocol.
    fn told(&self, ranked: &[usize]) -> String {
        let [top, others @ ..] = ranked else {
            return String::new();
        };
        let Some(value) = self.value(*top) else {
            return String::new();
        };
        let (name, label, shown) = (self.list(&[*top]), self.label(), range(&value));
        let popularity = self.popularity(ranked);
        let rivals = self.rivals(ranked);
        if popularity == Some(*top) {
            return match (&rivals[..], others) {
                ([], []) => format!("Popularity alone: {label} {shown}."),
                ([], [second, ..]) => {
                    let next = self.more_than_reference(*second, ranked);
                    let next = next.map_or_else(String::new, |of| self.beside(&of, "popularity"));
                    let of_first = match self.rivals(others).is_empty() || next.is_empty() {
                        true => next,
                        false => format!("; the first has {}", next.trim_start_matches(", ")),
                    };
                    format!(
                        "Popularity is ahead of {}: {label} {shown}; {}{of_first}.",
                        self.every(others),
                        self.next(others)
                    )
                }
                (rivals, _) => format!(
                    "Nothing is shown to beat popularity: {label} {shown}, and {} cannot be told apart from it.",
                    self.list(rivals)
                ),
            };
        }
        let more = self.more_than_reference(*top, ranked);
        let is_behind = more.is_some_and(|of| self.better().compare(of.mean, 0.0).is_lt());
        if let (true, Some(more), Some(mean)) = (is_behind, &more, self.reference_mean(ranked)) {
            let whom = self.whom();
            let is_ahead = match more.may_be_none() {
                true => format!("No arm is shown to beat {whom}"),
                false => format!("{} is ahead of {}", first_large(whom), self.every(ranked)),
            };
            let (gap, mean, next) = (self.gap(more, "it"), short(mean), self.next(ranked));
            let of_first = if rivals.is_empty() { "" } else { ", the first" };
            return format!("{is_ahead}: {label} {mean}; {next}{of_first} with {shown}, {gap}.");
        }
        let has_popularity = popularity.is_some_and(|arm| rivals.contains(&arm));
        let beside = more.filter(|_| !has_popularity);
        let beside = beside.map_or_else(String::new, |of| self.beside(&of, self.whom()));
        if !rivals.is_empty() {
            let mut all = vec![*top];
            all.extend(&rivals);
            let means = all.iter().take(MOST_NAMES);
            let means: Vec<String> = means
                .filter_map(|arm| Some(short(self.value(*arm)?.mean)))
                .collect();
            let of_first = match (beside.is_empty(), self.reference_mean(ranked)) {
                (true, _) | (_, None) => String::new(),
                (false, Some(mean)) if more.is_some_and(|of| of.may_be_none()) => {
                    format!(
                        "; nor can the first be told from {} ({})",
                        self.whom(),
                        short(mean)
                    )
                }
                _ => format!("; the first has {}", beside.trim_start_matches(", ")),
            };
            return format!(
                "{} cannot be told apart: {label} {}{of_first}.",
                self.list(&all),
                joined(&means)
            );
        }
        let does = match (others.is_empty(), value.interval) {
            (true, _) => format!("{name}: {label} {shown}"),
            (false, None) => format!("{name} has the best {label}, {shown}"),
            (false, Some(_)) => format!("{name} {}: {label} {shown}", self.verb()),
        };
        format!("{does}{beside}.")
    }

    /// Returns these arms in words, as those that something is ahead of.
    fn every(&self, arms: &[usize]) -> String {
        match arms {
            [only] => self.list(&[*only]),
            _ => "every arm".to_owned(),
        }
    }

    /// Returns which of these arms comes next, with those that cannot be told from it.
    fn next(&self, ranked: &[usize]) -> String {
        let rivals = self.rivals(ranked);
        let first = ranked.first().copied();
        let all: Vec<usize> = first.into_iter().chain(rivals).collect();
        let names = self.list(&all);
        match all.len() {
            1 => format!("{names} comes next"),
            _ => format!("{names} come next and cannot be told apart"),
        }
    }

    /// Returns that arms are below popularity, if some are.
    fn below(&self, ranked: &[usize]) -> Vec<String> {
        let is_below = |arm: &&usize| {
            let more = self.more_than_reference(**arm, ranked);
            more.is_some_and(|of| of.is_shown() && self.better().compare(of.mean, 0.0).is_lt())
        };
        // The sentence has said it of all.
        let popularity = self.popularity(ranked);
        if ranked.first().copied() == popularity || ranked.first().as_ref().is_some_and(is_below) {
            return Vec::new();
        }
        let below: Vec<usize> = ranked.iter().filter(is_below).copied().collect();
        let verb = if below.len() == 1 { "is" } else { "are" };
        let told = format!("{} {verb} behind {}.", self.all(&below), self.whom());
        (!below.is_empty()).then_some(told).into_iter().collect()
    }

    /// Returns what the intervals are, and which differences the study cannot show.
    fn intervals(&self, ranked: &[usize]) -> Vec<String> {
        let [top, others @ ..] = ranked else {
            return Vec::new();
        };
        let Some(Figure {
            interval: Some(_),
            over,
            ..
        }) = self.value(*top)
        else {
            return vec![
                "With one seed, and without the values of single users, nothing says how much of a difference is chance."
                    .to_owned(),
            ];
        };
        let mut told = format!("Intervals are those of 95 % over {}.", over.name());
        for kind in [Over::Seeds, Over::Users, Over::UsersAndSeeds] {
            let has_it = |arm: &&usize| {
                let of = self.value(**arm).filter(|of| of.interval.is_some());
                kind != over && of.is_some_and(|of| of.over == kind)
            };
            let those: Vec<usize> = others.iter().filter(has_it).copied().collect();
            if !those.is_empty() {
                told += &format!(
                    " Those of {} are over {} alone.",
                    self.all(&those),
                    kind.name()
                );
            }
        }
        if ranked.len() >= MANY_ARMS {
            told += &format!(
                " The best of {} arms owes a part of its figure to the choice: new seeds or a validation part tell how much.",
                ranked.len()
            );
        }
        let gaps = others.iter().filter_map(|arm| self.more_than(*top, *arm));
        let unseen = gaps
            .filter(Figure::may_be_none)
            .filter_map(|of| of.interval);
        let unseen = unseen
            .map(|[low, high]| (high - low) / 2.0)
            .fold(0.0, f64::max);
        if unseen > 0.0 {
            told += &format!(
                " A difference of up to {} from the best arm may not be seen.",
                short(unseen)
            );
        }
        vec![told]
    }

    /// Returns how a difference stands in a sentence, as in ", .091 more than popularity (.070 to .112)".
    fn beside(&self, more: &Figure, whom: &str) -> String {
        match more.may_be_none() {
            true => format!(
                ", which cannot be told from {whom}: {}",
                self.gap(more, "it")
            ),
            false => format!(", {}", self.gap(more, whom)),
        }
    }

    /// Returns a difference in words, with its interval.
    fn gap(&self, more: &Figure, whom: &str) -> String {
        let is_less = more.mean < 0.0;
        let between = more.interval.map_or_else(String::new, |[low, high]| {
            let [from, to] = match is_less {
                true => [-high, -low],
                false => [low, high],
            };
            format!(" ({} to {})", short(from), short(to))
        });
        let mean = short(more.mean.abs());
        if mean == ".000" {
            return format!("as much as {whom}{between}");
        }
        let words = if is_less { "less than" } else { "more than" };
        format!("{mean} {words} {whom}{between}")
    }

    /// Returns the baseline that all is held against, in words.
    fn whom(&self) -> &'_ str {
        in_words(self.reference.unwrap_or(POPULARITY))
    }

    fn label(&self) -> String {
        metrics::label(self.metric)
    }

    /// Returns what the best arm does, in the metric's words.
    fn verb(&self) -> &'static str {
        let needs = Metric::named(self.metric).map(|of| of.needs());
        let is_hit = self.metric.starts_with("hr@") || self.metric.starts_with("expected-hr@");
        let mut judged = self.grounds.iter().flatten().map(|of| of.judged.as_str());
        let is_one = judged.all(|judged| judged.starts_with("leave-one-out"));
        match (self.better(), needs, is_hit, is_one) {
            (Better::Lower, ..) => "has the smallest error",
            (_, Some(Needs::PredictedRatings), ..) => "predicts ratings best",
            (_, _, true, true) => "finds the held-out item most often",
            (_, _, true, false) => "finds a held-out item most often",
            _ => "ranks held-out items best",
        }
    }

    /// Returns the names of arms, however many there are.
    fn all(&self, arms: &[usize]) -> String {
        let names: Vec<String> = arms.iter().map(|arm| self.labels[*arm].clone()).collect();
        joined(&names)
    }

    /// Returns the first names, and how many more there are.
    fn list(&self, arms: &[usize]) -> String {
        let shown = arms
            .iter()
            .take(MOST_NAMES)
            .map(|arm| self.labels[*arm].clone());
        let mut names: Vec<String> = shown.collect();
        match arms.len().saturating_sub(MOST_NAMES) {
            0 => {}
            1 => names.push("1 other".to_owned()),
            others => names.push(format!("{others} others")),
        }
        joined(&names)
    }
}

/// Returns names as a list in a sentence. Of a name with commas, what comes after the first one stands
/// in parentheses.
pub(crate) fn joined(names: &[String]) -> String {
    let named: Vec<String> = names.iter().map(|name| in_sentence(name)).collect();
    match &named[..] {
        [] => String::new(),
        [only] => only.clone(),
        [all @ .., last] => format!("{} and {last}", all.join(", ")),
    }
}

fn in_sentence(name: &str) -> String {
    match name.split_once(JOINT) {
        Some((first, rest)) => format!("{first} ({rest})"),
        None => name.to_owned(),
    }
}

/// Returns a mean with its interval: half of its length if it lies evenly, or its ends.
pub(crate) fn range(of: &Figure) -> String {
    let mean = short(of.mean);
    match of.interval {
        None => mean,
        Some([low, high]) => {
            let [below, above] = [of.mean - low, high - of.mean].map(short);
            match below == above {
                true => format!("{mean} ± {above}"),
                false => format!("{mean} ({} to {})", short(low), short(high)),
            }
        }
    }
}
