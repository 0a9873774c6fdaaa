//! Implements neighbourhoods of items: the similarity of two items is the cosine of their columns
//! of positives.
//!
//! With c_ij, the number of users who have rated both items, and c_i, that of users of item i, the
//! similarity is S_ij = c_ij / (sqrt(c_i c_j) + shrinkage). Each item keeps its k most similar
//! items. A device scores item j by the sum of S_ij over its positives i among whose neighbours j
//! is.
//!
//! Source: Sarwar et al., Item-based Collaborative Filtering Recommendation Algorithms, WWW 2001,
//! for the cosine; Deshpande and Karypis, Item-based Top-N Recommendation Algorithms, TOIS 2004,
//! for the neighbours of positives.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ItemToItem, Weigher, counts, layout};
use crate::method::central::UserRatings;
use crate::method::recency::Recency;
use crate::method::server::StepContext;
use crate::method::{Entry, Placement, parameters, sizes_by};
use fedrecsim_core::error::{Error, Result};
use fedrecsim_core::math;
use fedrecsim_model::model::algebra::gram::mirror_upper;
use fedrecsim_model::model::table::{Table, TableShape};

/// Describes the method to the registry.
pub(crate) const ENTRY: Entry = Entry {
    name: "itemknn",
    summary: "centralised neighbourhoods of items by cosine: users send their ratings once, one step",
    source: "Sarwar et al., WWW 2001, and Deshpande and Karypis, Item-based Top-N Recommendation Algorithms, TOIS 2004",
    schema: &|| schemars::schema_for!(ItemKnnParameters),
    resolve: &|_| Vec::new(),
    placement: Placement::Central,
    draws_negatives: false,
    sizes: &|value, size| {
        sizes_by(value, |_: ItemKnnParameters| {
            layout(ItemKnn::MATRIX, size.items)
        })
    },
    build: &|value, problem| {
        let ItemKnnParameters {
            neighbours,
            shrinkage,
            recency,
        } = parameters("itemknn", value)?;
        Ok(Box::new(ItemToItem::new(
            ItemKnn {
                neighbours,
                shrinkage,
            },
            recency,
            problem,
        )))
    },
};

/// Parameters of neighbourhoods of items.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ItemKnnParameters {
    /// Number k of neighbours that each item keeps.
    #[schemars(range(min = 1))]
    pub neighbours: u32,
    /// Shrinkage, which is added to the divisor of a cosine, so that items with few users in common
    /// count less.
    #[schemars(range(min = 0))]
    pub shrinkage: f64,
    /// Lets recent positives count more when a device scores. Left out: all count alike.
    pub recency: Option<Recency>,
}

impl Default for ItemKnnParameters {
    fn default() -> Self {
        Self {
            neighbours: 100,
            shrinkage: 10.0,
            recency: None,
        }
    }
}

/// Holds how many neighbours are kept, and the shrinkage.
#[derive(Clone, Debug)]
pub(super) struct ItemKnn {
    pub neighbours: u32,
    pub shrinkage: f64,
}

impl Weigher for ItemKnn {
    const MATRIX: &'static str = "S";

    fn weigh(
        &self,
        ratings: &[UserRatings],
        items: usize,
        _step: &StepContext<'_>,
    ) -> Result<(Table, u64)> {
        let (mut counts, additions) = counts(ratings, items);
        mirror_upper(&mut counts).map_err(|cause| Error::Update(cause.to_string()))?;
        let roots: Vec<f64> = counts
            .diag()
            .iter()
            .map(|count| math::sqrt(*count))
            .collect();
        let mut table = Table::zeros(TableShape {
            rows: items,
            dimension: items,
        });
        let mut neighbours = Vec::new();
        for (i, row) in counts.rows().into_iter().enumerate() {
            let similar = |(j, count): (usize, &f64)| {
                let is_other = i != j && *count > 0.0;
                is_other.then(|| (count / (roots[i] * roots[j] + self.shrinkage), j))
            };
            neighbours.clear();
            neighbours.extend(row.iter().enumerate().filter_map(similar));
            // The most similar ones stand first, and the first item of equally similar ones.
            neighbours.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            let target = table.row_mut(i);
            for &(similarity, j) in neighbours.iter().take(self.neighbours as usize) {
                target[j] = similarity as f32;
            }
        }
        let m = items as u64;
        Ok((table, additions + m * m))
    }
}
