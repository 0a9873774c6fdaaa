//! Shortens the names of arms: what all of them share is said once, an arm is called by its method
//! where that tells it apart, and arms of axes fall into groups.

use std::collections::BTreeSet;

use super::results::ArmResults;
use crate::read::SavedRun;
use crate::reference::POPULARITY;

/// What joins the values of axes in the name of an arm.
pub(super) const JOINT: &str = ", ";

/// The most characters of a short name. A longer one loses what does not tell the arm apart.
const SHORT: usize = 40;

/// The most groups into which arms are divided.
#[cfg(any(test, feature = "plots"))]
const MOST_GROUPS: usize = 12;

/// The names of arms that stand beside each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    /// The values of axes that all arms share, such as `data=ml-100k`.
    pub shared: Vec<String>,
    /// The names without these, in the order of the arms.
    pub labels: Vec<String>,
}

/// Returns the values of axes that names consist of.
pub(super) fn parts_of<'a>(names: &[&'a str]) -> Vec<Vec<&'a str>> {
    let names = names.iter();
    names.map(|name| name.split(JOINT).collect()).collect()
}

/// Arms that share the values of the first axes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg(any(test, feature = "plots"))]
pub(crate) struct Group {
    /// The values that they share, as in the names of the arms.
    pub name: String,
    /// The arms, by their places.
    pub arms: Vec<usize>,
}

impl Names {
    /// Returns the short names of arms with these names. A single arm keeps its name.
    pub(crate) fn of(names: &[&str]) -> Self {
        let parts = parts_of(names);
        let as_they_are = || Self {
            shared: Vec::new(),
            labels: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        let [first, others @ ..] = &parts[..] else {
            return as_they_are();
        };
        let is_shared =
            |part: &&&str| part.contains('=') && others.iter().all(|other| other.contains(*part));
        let shared: Vec<&str> = first.iter().filter(is_shared).copied().collect();
        let without_shared = |parts: &Vec<&str>| -> String {
            let mut kept = parts.clone();
            kept.retain(|part| !shared.contains(part));
            kept.join(JOINT)
        };
        let labels: Vec<String> = parts.iter().map(without_shared).collect();
        let mut distinct = labels.clone();
        distinct.sort_unstable();
        distinct.dedup();
        // Names of other programs' reports may say the same twice.
        if others.is_empty() || distinct.len() < labels.len() || labels.iter().any(String::is_empty)
        {
            return as_they_are();
        }
        Self {
            shared: shared.into_iter().map(str::to_owned).collect(),
            labels,
        }
    }

    /// Returns the short names of arms: where methods differ, an arm is called by its own one and by
    /// what tells it from others of that method.
    pub(crate) fn of_arms(arms: &[ArmResults]) -> Self {
        let names: Vec<&str> = arms.iter().map(|arm| arm.name.as_str()).collect();
        let whole = Self::of(&names);
        let told = |arm| method_of(arm).or_else(|| method_of_name(&arm.name));
        let methods: Vec<Option<&str>> = arms.iter().map(told).collect();
        let is_told =
            methods.iter().all(Option::is_some) && methods.iter().any(|of| of != &methods[0]);
        let shortened = |is_shortest: bool| -> Vec<String> {
            let labels = whole.labels.iter().enumerate();
            let of = |(place, label): (usize, &String)| match is_told {
                true => by_method(place, label, &whole.labels, &methods, is_shortest),
                false if is_shortest => without_paths(label),
                false => label.clone(),
            };
            labels.map(of).collect()
        };
        let is_fit = |labels: &Vec<String>| {
            let distinct: BTreeSet<&String> = labels.iter().collect();
            distinct.len() == labels.len() && labels.iter().all(|label| !label.is_empty())
        };
        let is_short = |labels: &Vec<String>| labels.iter().all(|of| of.chars().count() <= SHORT);
        let fit: Vec<Vec<String>> = [false, true]
            .map(shortened)
            .into_iter()
            .filter(is_fit)
            .collect();
        let labels = fit
            .iter()
            .find(|labels| is_short(labels))
            .or(fit.last())
            .cloned();
        Self {
            labels: labels.unwrap_or_else(|| whole.labels.clone()),
            shared: whole.shared.clone(),
        }
    }

    /// Returns the axis whose values are the labels, and the values; `None` if there is no such
    /// axis.
    #[cfg(any(test, feature = "plots"))]
    pub(crate) fn values(&self) -> Option<(&str, Vec<&str>)> {
        let labels = self.labels.iter().filter(|label| !label.contains(JOINT));
        let (axes, values): (Vec<&str>, Vec<&str>) =
            labels.filter_map(|label| label.split_once('=')).unzip();
        let axis = *axes.first()?;
        let is_whole = axes.len() == self.labels.len() && axes.len() > 1;
        (is_whole && axes.iter().all(|other| *other == axis)).then_some((axis, values))
    }
}

/// Returns the method of an arm; `None` if no run of it has been read.
pub(crate) fn method_of(arm: &ArmResults) -> Option<&str> {
    arm.reports().next().and_then(|report| method(&report.run))
}

/// Returns the method that the name of an arm has: as the value of the axis, or in the key of a parameter.
fn method_of_name(name: &str) -> Option<&str> {
    name.split(JOINT).find_map(|part| {
        let (key, value) = part.split_once('=')?;
        match key.strip_prefix("method")? {
            "" => Some(value),
            parameter => parameter.strip_prefix('.')?.split('.').next(),
        }
    })
}

/// Returns whether an arm ranks by what all have taken. Counts of a window, with decay or of returning
/// users are methods that are held against it.
pub(crate) fn is_popularity(arm: &ArmResults) -> bool {
    let Some(report) = arm.reports().next() else {
        return false;
    };
    let parameters = &report.run.scenario["method"][POPULARITY];
    let is_set = |key: &&str| parameters.get(key).is_some_and(|value| !value.is_null());
    method(&report.run) == Some(POPULARITY)
        && !["window_days", "half_life_days"].iter().any(is_set)
        && parameters.get("returning") != Some(&true.into())
}

/// Returns the method of a run. One without parameters is written as its name alone.
pub(super) fn method(run: &SavedRun) -> Option<&str> {
    let method = &run.scenario["method"];
    let of_table = || method.as_object()?.keys().next().map(String::as_str);
    method.as_str().or_else(of_table)
}

/// Returns whether a part of a name says which method it is, or sets one of its parameters.
fn is_of_method(part: &str) -> bool {
    let key = part.split_once('=').map_or("", |(key, _)| key);
    key == "method" || key.starts_with("method.")
}

/// Returns the label of an arm among others whose methods differ: its method, and those of its parts
/// that not all arms of the method have. Parts about other things stay unless `is_shortest`. A name
/// that somebody has given stays as it is.
fn by_method(
    place: usize,
    label: &str,
    labels: &[String],
    methods: &[Option<&str>],
    is_shortest: bool,
) -> String {
    let peers = || {
        let all = labels.iter().zip(methods);
        all.filter(|(_, method)| **method == methods[place])
    };
    let is_shared = |part: &str| peers().all(|(other, _)| other.split(JOINT).any(|of| of == part));
    // The author of a study has named the values of an axis of methods.
    if let Some(value) = label.strip_prefix("method=") {
        return value.to_owned();
    }
    let parts: Vec<&str> = label.split(JOINT).collect();
    if !parts.iter().all(|part| part.contains('=')) || !parts.iter().any(|part| is_of_method(part))
    {
        return label.to_owned();
    }
    let is_kept = |part: &&&str| !is_shared(part) || !(is_shortest || is_of_method(part));
    let kept = parts.iter().filter(is_kept).map(|part| without_paths(part));
    let method = methods[place].unwrap_or_default().to_owned();
    let all: Vec<String> = std::iter::once(method).chain(kept).collect();
    all.join(JOINT)
}

/// Returns a name whose keys of methods have their last words alone.
fn without_paths(name: &str) -> String {
    let short = |part: &str| match part.split_once('=') {
        Some((key, value)) if key.starts_with("method.") => {
            let key = key.rsplit('.').next().unwrap_or(key);
            format!("{key}={value}")
        }
        _ => part.to_owned(),
    };
    name.split(JOINT).map(short).collect::<Vec<_>>().join(JOINT)
}

/// Returns the values of axes that a name consists of. A value may have commas in it.
pub(crate) fn axes_of(name: &str) -> Vec<(String, String)> {
    let mut axes: Vec<(String, String)> = Vec::new();
    for part in name.split(JOINT) {
        let is_axis = |(axis, _): &(&str, &str)| {
            let is_fit = |letter: char| letter.is_alphanumeric() || " -_.".contains(letter);
            !axis.is_empty() && axis.chars().all(is_fit)
        };
        match (part.split_once('=').filter(is_axis), axes.last_mut()) {
            (Some((axis, value)), _) => axes.push((axis.to_owned(), value.to_owned())),
            (None, Some((_, value))) => *value = format!("{value}{JOINT}{part}"),
            (None, None) => return Vec::new(),
        }
    }
    axes
}

/// Returns the arms by the values of their first axes: as few of these as leave at most `most` arms
/// in a group. None if there is no such division into a few groups. Arms that do not come from the
/// axes are in no group.
#[cfg(any(test, feature = "plots"))]
pub(crate) fn groups(names: &[&str], most: usize) -> Vec<Group> {
    let parts = parts_of(names);
    let axes = |parts: &Vec<&'_ str>| -> Option<Vec<String>> {
        let axis = |part: &&str| Some(part.split_once('=')?.0.to_owned());
        parts.iter().map(axis).collect()
    };
    let axes: Vec<Option<Vec<String>>> = parts.iter().map(axes).collect();
    let Some(of_most) = axes.iter().flatten().max_by_key(|axes| axes.len()) else {
        return Vec::new();
    };
    let is_from_axes = |place: &usize| axes[*place].as_ref() == Some(of_most);
    let from_axes: Vec<usize> = (0..names.len()).filter(is_from_axes).collect();
    for count in 1..of_most.len() {
        let mut groups: Vec<Group> = Vec::new();
        for &place in &from_axes {
            let name = parts[place][..count].join(JOINT);
            match groups.iter_mut().find(|group| group.name == name) {
                Some(group) => group.arms.push(place),
                None => groups.push(Group {
                    name,
                    arms: vec![place],
                }),
            }
        }
        if groups.len() > MOST_GROUPS {
            break;
        }
        let is_fit = |group: &Group| (2..=most).contains(&group.arms.len());
        if groups.len() > 1 && groups.iter().all(is_fit) {
            return groups;
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// If this fails, two arms have one name in a table, or a table does not say what its arms are.
    #[test]
    fn what_all_arms_share_is_taken_out_of_their_names() {
        let names = Names::of(&["data=ml, method=a, codec=x", "data=ml, method=b, codec=x"]);
        assert_eq!(
            (names.shared.join(" "), names.labels.join(" ")),
            ("data=ml codec=x".into(), "method=a method=b".into())
        );
        assert_eq!(names.values(), Some(("method", vec!["a", "b"])));
        for kept in [
            &["data=ml, codec=x"][..],
            &["a=1, b=2", "popularity"],
            &["a=1", "a=1, a=1"],
            &[],
        ] {
            let names = Names::of(kept);
            assert_eq!(
                (names.labels, names.shared.len()),
                (kept.iter().map(|&name| name.into()).collect(), 0)
            );
        }
        assert_eq!(Names::of(&["a=1", "b=2"]).values(), None);
        assert_eq!(Names::of(&["a=1, b=2", "a=3, b=4"]).values(), None);
    }

    /// If this fails, an arm is called by two hundred characters of its parameters, two arms have one
    /// name, or a name that somebody has given is lost.
    #[test]
    fn an_arm_is_called_by_its_method_where_that_tells_it_apart() {
        let named = |arms: &[(&str, &str)]| {
            let arm = |(name, method): &(&str, &str)| {
                let mut arm = crate::tests::results::results().arms.remove(0);
                arm.name = (*name).to_owned();
                for run in &mut arm.runs {
                    let report = run.report.as_mut().unwrap();
                    report.run.scenario["method"] = serde_json::json!({ *method: {} });
                }
                arm
            };
            Names::of_arms(&arms.iter().map(arm).collect::<Vec<_>>()).labels
        };
        assert_eq!(
            named(&[
                ("method=fedmf, times", "fedmf"),
                ("method=popularity", "popularity")
            ]),
            ["fedmf, times", "popularity"]
        );
        let long = "method.fedmf.latent_dimension=32, method.fedmf.learning_rate=0.05, training.rounds=100";
        let other = "method.pfedrec.learning_rate=0.1, training.rounds=60";
        assert_eq!(
            named(&[(long, "fedmf"), (other, "pfedrec")]),
            ["fedmf, training.rounds=100", "pfedrec, training.rounds=60"]
        );
        let twice = long.replace("0.05", "0.1");
        assert_eq!(
            named(&[(long, "fedmf"), (&twice, "fedmf"), (other, "pfedrec")]),
            [
                "fedmf, learning_rate=0.05",
                "fedmf, learning_rate=0.1",
                "pfedrec"
            ]
        );
        assert_eq!(
            named(&[("the paper's", "fedmf"), ("ours", "pfedrec")]),
            ["the paper's", "ours"]
        );
        let failed = |name: &str, method: Option<&str>| {
            let mut arm = crate::tests::results::results().arms.remove(0);
            name.clone_into(&mut arm.name);
            for run in &mut arm.runs {
                match method {
                    None => run.report = None,
                    Some(method) => {
                        let report = run.report.as_mut().unwrap();
                        report.run.scenario["method"] = serde_json::json!({ method: {} });
                    }
                }
            }
            arm
        };
        let arms = [
            failed("method.fedmf.learning_rate=1e9", None),
            failed("method.popularity.returning=false", Some("popularity")),
        ];
        assert_eq!(Names::of_arms(&arms).labels, ["fedmf", "popularity"]);
        assert_eq!(
            axes_of("data=a, method=fedgram, times"),
            [("data", "a"), ("method", "fedgram, times")]
                .map(|(a, b)| (a.to_owned(), b.to_owned()))
        );
    }

    /// If this fails, an arm of a large study is on no picture of its group, or every picture has a
    /// single arm.
    #[test]
    fn arms_of_axes_fall_into_groups_by_the_first_axes_that_suffice() {
        let mut names = Vec::new();
        for data in ["a", "b"] {
            for method in ["c", "d"] {
                names.extend(
                    [1, 2, 3].map(|codec| format!("data={data}, method={method}, codec={codec}")),
                );
            }
        }
        names.push("popularity".to_owned());
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let by_data = groups(&names, 6);
        assert_eq!(
            by_data
                .iter()
                .map(|group| group.name.as_str())
                .collect::<Vec<_>>(),
            ["data=a", "data=b"]
        );
        assert_eq!(by_data[1].arms, [6, 7, 8, 9, 10, 11]);
        let by_both = groups(&names, 5);
        assert_eq!(
            (by_both.len(), by_both[3].name.as_str()),
            (4, "data=b, method=d")
        );
        assert_eq!(groups(&names, 2), [], "no group is small enough");
        assert_eq!(
            groups(&["codec=a", "codec=b", "codec=c"], 2),
            [],
            "every arm would be a group"
        );
    }
}
