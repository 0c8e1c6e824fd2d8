//! The picture: a row for each contestant, a column for each provider; in each cell the arrivals in
//! the window that ends now, over time, against the quota. SVG, and PNG at twice the size.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

use admission_examples::time::{seconds, short};
use plotters::backend::{BitMapBackend, DrawingBackend, SVGBackend};
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{PathElement, Polygon, Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{
    Color, FontStyle, IntoFont, IntoTextStyle, RGBAColor, RGBColor, ShapeStyle, register_font,
};

use crate::measure::rolling;
use crate::report::{ProviderResult, Record};
use crate::scenario::{Provider, Scenario};

/// What an SVG names, in order of preference; the first is what the PNG is drawn with.
const FONT: &str = "Noto Sans, Arial, sans-serif";

/// How a backend's size of a font follows from its em: `plotters` divides by the first for an SVG;
/// for a PNG it means the whole height of a line of Noto Sans.
const SVG_SIZE: f64 = 1.24;
const PNG_SIZE: f64 = 1.362;

const INK: RGBColor = RGBColor(31, 41, 55);
const FAINT: RGBColor = RGBColor(107, 114, 128);
const GRID: RGBColor = RGBColor(229, 231, 235);
const ACCEPTED: RGBColor = RGBColor(37, 99, 235);
const REFUSED: RGBColor = RGBColor(220, 38, 38);
const GOOD: RGBColor = RGBColor(21, 128, 61);

/// A count this many times the quota is cut off, so that the quota itself stays readable.
const MOST_QUOTAS: usize = 4;

const WIDTH: f64 = 1_080.0;
const MARGIN: f64 = 28.0;
const HEAD: f64 = 140.0;
const ROW: f64 = 222.0;
const FOOT: f64 = 30.0;
/// Of a row: its title and the note above each plot; below it, the labels of the time axis.
const ABOVE_PLOT: f64 = 72.0;
const BELOW_PLOT: f64 = 30.0;
/// Of a cell: the labels of the count axis.
const LEFT_OF_PLOT: f64 = 40.0;
const BETWEEN_CELLS: f64 = 20.0;

/// Draws `dashboard.svg` and `dashboard.png` into `folder`.
pub(crate) fn draw(
    folder: &Path,
    scenario: &Scenario,
    records: &[Record],
) -> Result<[PathBuf; 2], Box<dyn Error>> {
    for (style, bytes) in [(FontStyle::Normal, notosans::REGULAR_TTF), (FontStyle::Bold, notosans::BOLD_TTF)]
    {
        register_font(FONT, style, bytes).map_err(|_| "the font cannot be read")?;
    }
    std::fs::create_dir_all(folder)?;
    let paths = [folder.join("dashboard.svg"), folder.join("dashboard.png")];
    let height = HEAD + ROW * records.len() as f64 + FOOT;
    let size = |scale: f64| ((WIDTH * scale) as u32, (height * scale) as u32);

    let svg = SVGBackend::new(&paths[0], size(1.0));
    Canvas::new(svg, 1.0, SVG_SIZE).everything(scenario, records)?;
    let png = BitMapBackend::new(&paths[1], size(2.0));
    Canvas::new(png, 2.0, PNG_SIZE).everything(scenario, records)?;
    Ok(paths)
}

type Drawn = Result<(), String>;

/// An area to draw on, in lengths that do not depend on its resolution.
struct Canvas<DB: DrawingBackend> {
    area: DrawingArea<DB, Shift>,
    scale: f64,
    font_size: f64,
}

/// Where a cell's plot is, and what its edges stand for.
struct Plot {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
    /// Seconds at the right edge.
    span: f64,
    /// Count at the top edge.
    most: f64,
}

impl Plot {
    fn x(&self, seconds: f64) -> f64 {
        self.left + (self.right - self.left) * (seconds / self.span).clamp(0.0, 1.0)
    }

    fn y(&self, count: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * (count / self.most).clamp(0.0, 1.0)
    }
}

impl<DB: DrawingBackend> Canvas<DB> {
    fn new(backend: DB, scale: f64, font_size: f64) -> Self {
        Self { area: backend.into_drawing_area(), scale, font_size }
    }

    fn everything(&self, scenario: &Scenario, records: &[Record]) -> Drawn {
        self.area.fill(&plotters::style::WHITE).map_err(text_of)?;
        self.head(scenario)?;
        let columns = scenario.providers.len();
        let cell = (WIDTH - 2.0 * MARGIN + BETWEEN_CELLS) / columns as f64;
        let span = span(records);
        for (index, provider) in scenario.providers.iter().enumerate() {
            let left = MARGIN + cell * index as f64;
            let title = format!("{}  ·  {}", provider.name, provider.terms());
            self.text(left + LEFT_OF_PLOT, HEAD - 14.0, &title, &Face::bold(14.5, INK))?;
            for (row, record) in records.iter().enumerate() {
                let top = HEAD + ROW * row as f64;
                let plot = Plot {
                    left: left + LEFT_OF_PLOT,
                    top: top + ABOVE_PLOT,
                    right: left + cell - BETWEEN_CELLS,
                    bottom: top + ROW - BELOW_PLOT,
                    span,
                    most: most_shown(provider, records, index),
                };
                self.cell(&plot, provider, &record.results[index])?;
            }
        }
        for (row, record) in records.iter().enumerate() {
            let top = HEAD + ROW * row as f64;
            let name = record.contestant.name();
            let face = Face::bold(14.5, INK);
            self.path(&[(MARGIN, top), (WIDTH - MARGIN, top)], GRID.to_rgba(), 1.0)?;
            self.text(MARGIN, top + 18.0, name, &face)?;
            let after = MARGIN + self.width(name, &face)? + 12.0;
            self.text(after, top + 18.0, record.contestant.about(), &Face::plain(12.5, FAINT))?;
        }
        let caption = "seconds since the first call";
        let face = Face::plain(11.0, FAINT).at(HPos::Center);
        let bottom = HEAD + ROW * records.len() as f64;
        for column in 0..columns {
            let left = MARGIN + cell * column as f64 + LEFT_OF_PLOT;
            let right = MARGIN + cell * (column + 1) as f64 - BETWEEN_CELLS;
            self.text((left + right) / 2.0, bottom + 4.0, caption, &face)?;
        }
        self.area.present().map_err(text_of)
    }

    /// The title and the legend.
    fn head(&self, scenario: &Scenario) -> Drawn {
        let calls: usize = scenario.providers.iter().map(|p| p.calls).sum();
        let title = format!(
            "A dashboard of {} panels opens: {calls} calls to {} providers",
            scenario.panels,
            scenario.providers.len()
        );
        self.text(MARGIN, 32.0, &title, &Face::bold(20.0, INK))?;
        let about = "Arrivals at the server in the window that ends now, over time, against the quota of \
                     each provider";
        self.text(MARGIN, 60.0, about, &Face::plain(12.5, FAINT))?;
        let face = Face::plain(12.5, INK);
        let mut x = MARGIN;
        let y = 86.0;
        for (color, label) in [(ACCEPTED, "accepted"), (REFUSED, "refused with 429")] {
            self.rect((x, y - 6.0), (x + 16.0, y + 6.0), color.mix(0.30))?;
            self.path(&[(x, y - 6.0), (x + 16.0, y - 6.0)], color.to_rgba(), 2.0)?;
            self.text(x + 23.0, y, label, &face)?;
            x += 23.0 + self.width(label, &face)? + 26.0;
        }
        self.path(&[(x + 7.0, y - 6.0), (x + 7.0, y + 6.0)], REFUSED.to_rgba(), 1.0)?;
        self.text(x + 17.0, y, "one refused arrival", &face)?;
        x += 17.0 + self.width("one refused arrival", &face)? + 26.0;
        self.dashes((x, y), (x + 28.0, y), INK)?;
        self.text(x + 35.0, y, "quota", &face)?;
        x += 35.0 + self.width("quota", &face)? + 26.0;
        self.path(&[(x, y - 6.0), (x, y + 6.0)], GOOD.to_rgba(), 2.0)?;
        self.text(x + 9.0, y, "ideal finish", &face)
    }

    fn cell(&self, plot: &Plot, provider: &Provider, result: &ProviderResult) -> Drawn {
        self.axes(plot)?;
        self.note(plot, provider, result)?;

        // A slice for each dot of the PNG; the most that each held.
        let slices = ((plot.right - plot.left) * 2.0) as usize;
        let all: Vec<Duration> = result.arrivals.iter().map(|a| a.at).collect();
        let accepted = result.arrivals.iter().filter(|a| a.accepted);
        let accepted: Vec<Duration> = accepted.map(|a| a.at).collect();
        let span = Duration::from_secs_f64(plot.span);
        let all = rolling(&all, provider.window, span, slices);
        let accepted = rolling(&accepted, provider.window, span, slices);
        let none = vec![0; slices];
        if result.refused > 0 {
            self.band(plot, &accepted, &all, REFUSED.mix(0.30))?;
            self.outline(plot, &all, REFUSED)?;
        }
        self.band(plot, &none, &accepted, ACCEPTED.mix(0.30))?;
        self.outline(plot, &accepted, ACCEPTED)?;
        self.cut_off(plot, &all)?;

        let mut last = f64::NEG_INFINITY;
        for arrival in result.arrivals.iter().filter(|a| !a.accepted) {
            let x = plot.x(arrival.at.as_secs_f64());
            if x - last >= 0.5 {
                let mark = [(x, plot.bottom), (x, plot.bottom - 7.0)];
                self.path(&mark, REFUSED.to_rgba(), 1.0)?;
                last = x;
            }
        }
        let ideal = plot.x(provider.ideal().as_secs_f64());
        self.path(&[(ideal, plot.bottom), (ideal, plot.bottom - 16.0)], GOOD.to_rgba(), 2.0)?;
        let quota = plot.y(provider.limit as f64);
        self.dashes((plot.left, quota), (plot.right, quota), INK)
    }

    /// The cell's numbers.
    fn note(&self, plot: &Plot, provider: &Provider, result: &ProviderResult) -> Drawn {
        let lane = &result.lane;
        let within = result.refused == 0 && result.most <= provider.limit;
        let refused = match result.refused {
            0 => "none refused".into(),
            n => format!("{n} refused"),
        };
        let numbers = format!("peak {} / quota {}  ·  {refused}", result.most, provider.limit);
        let color = if within { GOOD } else { REFUSED };
        self.text(plot.left, plot.top - 31.0, &numbers, &Face::bold(12.0, color))?;
        let finish = seconds(lane.finish);
        let (done, color) = if lane.succeeded == lane.calls {
            (format!("all {} done after {finish}", lane.calls), FAINT)
        } else {
            let lost = lane.calls - lane.succeeded;
            (format!("{lost} of {} calls lost", lane.calls), REFUSED)
        };
        self.text(plot.left, plot.top - 14.0, &done, &Face::plain(12.0, color))
    }

    fn axes(&self, plot: &Plot) -> Drawn {
        let grid = GRID.to_rgba();
        let face = Face::plain(11.0, FAINT).at(HPos::Right);
        for count in ticks(plot.most, 4.0) {
            let y = plot.y(count);
            self.path(&[(plot.left, y), (plot.right, y)], grid, 1.0)?;
            self.text(plot.left - 6.0, y, &count.to_string(), &face)?;
        }
        let face = Face::plain(11.0, FAINT).at(HPos::Center);
        for second in ticks(plot.span, 6.0) {
            let x = plot.x(second);
            self.path(&[(x, plot.bottom), (x, plot.bottom + 4.0)], FAINT.to_rgba(), 1.0)?;
            let label = short(Duration::from_secs_f64(second));
            self.text(x, plot.bottom + 13.0, &label, &face)?;
        }
        let floor = [(plot.left, plot.bottom), (plot.right, plot.bottom)];
        self.path(&floor, FAINT.to_rgba(), 1.0)
    }

    /// The area between two step functions, given as counts of equal slices of the time axis.
    fn band(&self, plot: &Plot, low: &[usize], high: &[usize], color: RGBAColor) -> Drawn {
        let mut points = self.steps(plot, high);
        points.extend(self.steps(plot, low).into_iter().rev());
        let points: Vec<(i32, i32)> = points.into_iter().map(|p| self.dot(p)).collect();
        self.area.draw(&Polygon::new(points, color.filled())).map_err(text_of)
    }

    fn outline(&self, plot: &Plot, counts: &[usize], color: RGBColor) -> Drawn {
        // Not along the floor before and after everything.
        let corners = self.steps(plot, counts);
        let above = |corner: &(f64, f64)| corner.1 < plot.bottom;
        let first = corners.iter().position(above).unwrap_or(0);
        let last = corners.iter().rposition(above).unwrap_or(0);
        let end = (last + 2).min(corners.len());
        self.path(&corners[first.saturating_sub(1)..end], color.to_rgba(), 1.5)
    }

    /// The corners of a step function.
    fn steps(&self, plot: &Plot, counts: &[usize]) -> Vec<(f64, f64)> {
        let at = |slice: usize| plot.left + (plot.right - plot.left) * slice as f64 / counts.len() as f64;
        let mut corners = vec![(plot.left, plot.bottom)];
        let mut y = plot.bottom;
        for (slice, count) in counts.iter().enumerate() {
            let next = plot.y(*count as f64);
            if next != y {
                corners.push((at(slice), y));
                corners.push((at(slice), next));
                y = next;
            }
        }
        corners.push((plot.right, y));
        corners
    }

    /// Says how far a count goes that the plot cuts off.
    fn cut_off(&self, plot: &Plot, counts: &[usize]) -> Drawn {
        let cut = |count: &usize| *count as f64 > plot.most;
        let (Some(first), Some(last)) = (counts.iter().position(cut), counts.iter().rposition(cut)) else {
            return Ok(());
        };
        let peak = counts.iter().max().copied().unwrap_or(0);
        let label = format!("up to {peak}");
        let face = Face::bold(12.0, REFUSED);
        let half = self.width(&label, &face)? / 2.0 + 12.0;
        let middle = (first + last) as f64 / 2.0 / counts.len() as f64;
        let x = plot.left + (plot.right - plot.left) * middle;
        let x = x.clamp(plot.left + half, plot.right - half);
        let y = plot.top + 12.0;
        self.rect((x - half, y - 9.0), (x + half, y + 9.0), plotters::style::WHITE.mix(0.85))?;
        let tip = x - half + 9.0;
        let arrow = [(tip - 4.0, y + 4.0), (tip + 4.0, y + 4.0), (tip, y - 4.0)];
        let arrow = arrow.map(|p| self.dot(p)).to_vec();
        self.area.draw(&Polygon::new(arrow, REFUSED.filled())).map_err(text_of)?;
        self.text(x - half + 17.0, y, &label, &face)
    }

    fn rect(&self, from: (f64, f64), to: (f64, f64), color: RGBAColor) -> Drawn {
        let corners = [self.dot(from), self.dot(to)];
        self.area.draw(&Rectangle::new(corners, color.filled())).map_err(text_of)
    }

    fn path(&self, points: &[(f64, f64)], color: RGBAColor, width: f64) -> Drawn {
        let points: Vec<(i32, i32)> = points.iter().map(|p| self.dot(*p)).collect();
        let style =
            ShapeStyle { color, filled: false, stroke_width: (width * self.scale).round().max(1.0) as u32 };
        self.area.draw(&PathElement::new(points, style)).map_err(text_of)
    }

    /// A level dashed line.
    fn dashes(&self, from: (f64, f64), to: (f64, f64), color: RGBColor) -> Drawn {
        let mut x = from.0;
        while x < to.0 {
            let end = (x + 6.0).min(to.0);
            self.path(&[(x, from.1), (end, to.1)], color.to_rgba(), 1.5)?;
            x += 10.0;
        }
        Ok(())
    }

    /// Text whose middle is at the height `y`.
    fn text(&self, x: f64, y: f64, text: &str, face: &Face) -> Drawn {
        let style = (FONT, face.em * self.font_size * self.scale, face.style)
            .into_font()
            .into_text_style(&self.area)
            .color(&face.color)
            .pos(Pos::new(face.side, VPos::Center));
        self.area.draw(&Text::new(text.to_owned(), self.dot((x, y)), style)).map_err(text_of)
    }

    /// How wide a text is in the PNG; in an SVG it may be a little more, in another font.
    fn width(&self, text: &str, face: &Face) -> Result<f64, String> {
        let font = (FONT, face.em * PNG_SIZE * 8.0, face.style).into_font();
        let (width, _) = font.box_size(text).map_err(text_of)?;
        Ok(f64::from(width) / 8.0)
    }

    fn dot(&self, (x, y): (f64, f64)) -> (i32, i32) {
        ((x * self.scale).round() as i32, (y * self.scale).round() as i32)
    }
}

/// How a text looks, and which of its sides is given.
struct Face {
    em: f64,
    style: FontStyle,
    color: RGBColor,
    side: HPos,
}

impl Face {
    fn plain(em: f64, color: RGBColor) -> Self {
        Self { em, style: FontStyle::Normal, color, side: HPos::Left }
    }

    fn bold(em: f64, color: RGBColor) -> Self {
        Self { style: FontStyle::Bold, ..Self::plain(em, color) }
    }

    fn at(self, side: HPos) -> Self {
        Self { side, ..self }
    }
}

/// Where the time axis ends: a little after everything.
fn span(records: &[Record]) -> f64 {
    let results = || records.iter().flat_map(|record| &record.results);
    let arrivals = results().filter_map(|result| result.arrivals.last().map(|a| a.at));
    let finishes = results().map(|result| result.lane.finish);
    let last = arrivals.chain(finishes).max().unwrap_or_default();
    last.as_secs_f64().max(0.1) * 1.03
}

/// Where a provider's count axes end: the same for all contestants.
fn most_shown(provider: &Provider, records: &[Record], index: usize) -> f64 {
    let most = records.iter().map(|record| record.results[index].most);
    let most = most.max().unwrap_or(0).max(provider.limit);
    most.min(provider.limit * MOST_QUOTAS) as f64 * 1.08
}

/// Round numbers from 0 to `most`, about so many.
fn ticks(most: f64, about: f64) -> Vec<f64> {
    let rough = most / about;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= rough)
        .unwrap_or(rough);
    (0..).map(|n| f64::from(n) * step).take_while(|tick| *tick <= most).collect()
}

fn text_of(error: impl Error) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(216.0, 4.0), [0.0, 100.0, 200.0]);
        assert_eq!(ticks(9.5, 6.0), [0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!(ticks(86.4, 4.0), [0.0, 50.0]);
    }
}
