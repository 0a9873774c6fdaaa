//! Writes short texts beside points so that they hide neither one another nor the points.

use plotters::prelude::{Color, PathElement, Rectangle, Text, WHITE};

use super::canvas::{Context, Drawn, GREY, bold};
use super::layout::Note;

/// The half height of a text, and half the width of one of its characters, in pixels.
const HALF: (i32, i32) = (7, 10);

/// Half the size of the square around a point that texts keep free.
const POINT: i32 = 9;

/// The distances from a point at which its text is tried.
const DISTANCES: [i32; 6] = [20, 36, 54, 74, 96, 120];

/// The directions from a point to try for its text, in hundredths, in this order.
const DIRECTIONS: [(i32, i32); 12] = [
    (100, 0),
    (71, -71),
    (71, 71),
    (0, -100),
    (0, 100),
    (-71, -71),
    (-71, 71),
    (-100, 0),
    (92, -38),
    (92, 38),
    (38, -92),
    (38, 92),
];

/// A rectangle: left, top, right, bottom.
type Place = [i32; 4];

/// Draws notes. One that is not beside its point has a line to it.
pub(super) fn draw(context: &Context, notes: &[Note]) -> Drawn {
    let plane = context.plotting_area();
    let (across, down) = plane.get_pixel_range();
    let to_plane = |(x, y): (i32, i32)| (x - across.start, y - down.start);
    let points: Vec<(i32, i32)> = notes
        .iter()
        .map(|note| to_plane(plane.map_coordinate(&note.at)))
        .collect();
    let lengths: Vec<usize> = notes.iter().map(|note| note.text.chars().count()).collect();
    let room = [0, 0, across.end - across.start, down.end - down.start];
    let surface = plane.strip_coord_spec();
    for ((note, point), center) in notes
        .iter()
        .zip(&points)
        .zip(places(&points, &lengths, room))
    {
        let apart = (center.0 - point.0).abs().max((center.1 - point.1).abs());
        if apart > DISTANCES[0] {
            surface.draw(&PathElement::new(
                vec![*point, center],
                GREY.mix(0.6).stroke_width(1),
            ))?;
        }
        let [left, top, right, bottom] = around(center, note.text.chars().count());
        surface.draw(&Rectangle::new(
            [(left, top), (right, bottom)],
            WHITE.mix(0.7).filled(),
        ))?;
        surface.draw(&Text::new(
            note.text.clone(),
            (left, top),
            bold(19).color(&note.color),
        ))?;
    }
    Ok(())
}

/// Returns the centres of texts of these lengths beside `points`, in pixels. A text that fits
/// nowhere stands where it was tried first.
fn places(points: &[(i32, i32)], lengths: &[usize], room: Place) -> Vec<(i32, i32)> {
    let mut taken: Vec<Place> = points
        .iter()
        .map(|&(x, y)| [x - POINT, y - POINT, x + POINT, y + POINT])
        .collect();
    let mut found = Vec::new();
    for (&(x, y), &length) in points.iter().zip(lengths) {
        let tried = DISTANCES.iter().flat_map(|distance| {
            DIRECTIONS
                .iter()
                .map(move |(dx, dy)| (x + dx * distance / 100, y + dy * distance / 100))
        });
        let is_free = |center: &(i32, i32)| {
            let at = around(*center, length);
            let is_inside =
                at[0] >= room[0] && at[1] >= room[1] && at[2] <= room[2] && at[3] <= room[3];
            is_inside && taken.iter().all(|other| !overlap(at, *other))
        };
        let place = tried
            .clone()
            .find(is_free)
            .or_else(|| tried.clone().next())
            .unwrap_or((x, y));
        taken.push(around(place, length));
        found.push(place);
    }
    found
}

/// Returns the rectangle of a text of this length around its centre.
fn around((x, y): (i32, i32), length: usize) -> Place {
    let half = HALF.0 * length as i32;
    [x - half, y - HALF.1, x + half, y + HALF.1]
}

fn overlap(one: Place, other: Place) -> bool {
    one[0] < other[2] && other[0] < one[2] && one[1] < other[3] && other[1] < one[3]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, the number of an arm hides that of another one, or its point.
    #[test]
    fn texts_of_points_that_coincide_stand_beside_each_other() {
        let points = [(200, 200); 16];
        let found = places(&points, &[2; 16], [0, 0, 900, 500]);
        for (place, center) in found.iter().enumerate() {
            assert!(
                !overlap(around(*center, 2), [191, 191, 209, 209]),
                "{center:?}"
            );
            let others = found[..place].iter();
            assert!(
                others
                    .into_iter()
                    .all(|other| !overlap(around(*center, 2), around(*other, 2))),
                "{center:?}"
            );
        }
        let at_edge = places(&[(895, 5)], &[2], [0, 0, 900, 500]);
        let [_, top, right, _] = around(at_edge[0], 2);
        assert!(top >= 0 && right <= 900, "{at_edge:?}");
    }
}
