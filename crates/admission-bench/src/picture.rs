//! The pictures of the page: bars for the ways to do one job, and lines for what grows with the queue. SVG.
//!
//! Owns: how they look. Lacks numbers of its own.

use std::error::Error;
use std::path::Path;

use plotters::backend::SVGBackend;
use plotters::chart::{ChartBuilder, SeriesLabelPosition};
use plotters::coord::combinators::IntoLogRange;
use plotters::drawing::IntoDrawingArea;
use plotters::element::{Circle, PathElement, Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontStyle, IntoFont, RGBColor, WHITE, register_font};

const FONT: &str = "Noto Sans, Arial, sans-serif";
const INK: RGBColor = RGBColor(31, 41, 55);
const FAINT: RGBColor = RGBColor(229, 231, 235);
const OURS: RGBColor = RGBColor(37, 99, 235);
const OTHERS: [RGBColor; 5] = [
    RGBColor(107, 114, 128),
    RGBColor(217, 119, 6),
    RGBColor(21, 128, 61),
    RGBColor(157, 23, 77),
    RGBColor(14, 116, 144),
];

/// Makes the letters known to the drawing.
///
/// # Errors
///
/// If they cannot be read.
pub fn letters() -> Result<(), Box<dyn Error>> {
    for (style, bytes) in [(FontStyle::Normal, notosans::REGULAR_TTF), (FontStyle::Bold, notosans::BOLD_TTF)]
    {
        register_font(FONT, style, bytes).map_err(|_| "the font cannot be read")?;
    }
    Ok(())
}

/// One bar for each case, in the order given; admission's stand out.
///
/// # Errors
///
/// If the file cannot be written.
pub fn bars(path: &Path, title: &str, unit: &str, cases: &[(String, f64)]) -> Result<(), Box<dyn Error>> {
    const ROW: i32 = 26;
    const LEFT: i32 = 430;
    const RIGHT: i32 = 880;
    let height = 60 + ROW * cases.len() as i32;
    let area = SVGBackend::new(path, (960, height as u32)).into_drawing_area();
    area.fill(&WHITE)?;
    let bold = (FONT, 17).into_font().style(FontStyle::Bold).color(&INK);
    area.draw(&Text::new(format!("{title}, {unit}"), (20, 16), bold))?;
    let most = cases.iter().map(|(_, number)| *number).fold(1e-9, f64::max);
    for (at, (name, number)) in cases.iter().enumerate() {
        let top = 48 + ROW * at as i32;
        let end = LEFT + (f64::from(RIGHT - LEFT) * number / most) as i32;
        let color = if name.starts_with("admission") { OURS } else { OTHERS[0] };
        let style = (FONT, 13).into_font().color(&INK);
        let right = style.clone().pos(Pos::new(HPos::Right, VPos::Center));
        area.draw(&Text::new(name.clone(), (LEFT - 10, top + 8), right))?;
        area.draw(&Rectangle::new([(LEFT, top), (end, top + 16)], color.filled()))?;
        let after = style.pos(Pos::new(HPos::Left, VPos::Center));
        area.draw(&Text::new(format!("{number:.0}"), (end + 6, top + 8), after))?;
    }
    area.present()?;
    Ok(())
}

/// A line of a picture: its name and its points.
pub type Line = (String, Vec<(f64, f64)>);

/// Lines over the length of the queue, both axes in powers of ten.
///
/// # Errors
///
/// If the file cannot be written.
pub fn lines(path: &Path, title: &str, unit: &str, lines: &[Line]) -> Result<(), Box<dyn Error>> {
    let points = || lines.iter().flat_map(|(_, points)| points);
    let bounds = |of: fn(&(f64, f64)) -> f64| {
        let numbers = || points().map(of).filter(|number| *number > 0.0);
        (numbers().fold(f64::INFINITY, f64::min), numbers().fold(1e-9, f64::max))
    };
    let ((left, right), (bottom, top)) = (bounds(|point| point.0), bounds(|point| point.1));
    if left >= right {
        return Ok(());
    }
    let area = SVGBackend::new(path, (960, 480)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(format!("{title}, {unit}"), (FONT, 17).into_font().style(FontStyle::Bold).color(&INK))
        .margin(16)
        .x_label_area_size(36)
        .y_label_area_size(64)
        .build_cartesian_2d((left..right).log_scale(), (bottom / 2.0..top * 2.0).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("how many wait")
        .label_style((FONT, 13).into_font().color(&INK))
        .light_line_style(WHITE)
        .bold_line_style(FAINT)
        .x_label_formatter(&|number| format!("{number:.0}"))
        .y_label_formatter(&|number| format!("{number:.0}"))
        .draw()?;
    let mut others = OTHERS.iter().cycle();
    for (name, points) in lines {
        let is_ours = name.starts_with("admission") || name.starts_with("the machine, 16 providers");
        let color = if is_ours && !name.contains("hot") { OURS } else { *others.next().unwrap_or(&INK) };
        chart
            .draw_series(std::iter::once(PathElement::new(points.clone(), color.stroke_width(2))))?
            .label(name.clone())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
        chart.draw_series(points.iter().map(|point| Circle::new(*point, 3, color.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .label_font((FONT, 13).into_font().color(&INK))
        .background_style(WHITE)
        .border_style(FAINT)
        .draw()?;
    area.present()?;
    Ok(())
}
