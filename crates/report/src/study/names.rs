//! Shortens the names of arms: what all of them share is said once, and arms of axes fall into
//! groups.

/// What joins the values of axes in the name of an arm.
pub(super) const JOINT: &str = ", ";

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

    /// Returns a sentence on what the arms share; `None` if they share nothing.
    pub(crate) fn sentence(&self) -> Option<String> {
        let quoted: Vec<String> = self.shared.iter().map(|part| format!("`{part}`")).collect();
        (!quoted.is_empty()).then(|| format!("All arms share {}.", quoted.join(JOINT)))
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
        assert_eq!(
            names.sentence().unwrap(),
            "All arms share `data=ml`, `codec=x`."
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
