// SPDX-License-Identifier: GPL-2.0

//! Draws four QPs that share a link of 10 Gbit/s, with the congestion window alone and with DCQCN: their rates and the
//! queue over time. Writes an SVG to standard output; Documentation/performance/congestion.svg is one.

use roce::{
    congestion::{
        dcqcn::DcqcnConfig,
        pacer::Rate,
        Algorithm, //
    },
    time::Duration, //
};
use roce_tests::bottleneck::{
    Bottleneck,
    Queue,
    Sample, //
};

const MS: Duration = Duration::from_micros(1_000);
/// One QP more, of as many as there are colours, starts in each of these intervals.
const STARTS_MS: u64 = 100;
const TOTAL_MS: u64 = 600;
const COLOURS: [&str; 4] = ["#1b6ca8", "#c0392b", "#2e8b57", "#8e44ad"];
/// Size of one chart, and the margins.
const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 120.0;
const MARGIN: f64 = 50.0;

fn simulate(algorithm: Algorithm) -> Vec<Sample> {
    let queue = Queue {
        rate: Rate::from_mbit_s(10_000),
        delay: Duration::from_micros(10),
        limit_bytes: 2_500_000,
        red: Some((250_000, 1_250_000, 10)),
    };
    let starts: Vec<_> = (0..COLOURS.len() as u64)
        .map(|flow| MS.saturating_mul(STARTS_MS * flow))
        .collect();
    Bottleneck::new(1, queue, algorithm, &starts)
        .run(MS.saturating_mul(TOTAL_MS), MS.saturating_mul(2))
}

/// Returns one line: values from 0 to `most`, in the chart whose lower left corner is at (x, y).
fn line(values: &[f64], most: f64, (x, y): (f64, f64), colour: &str) -> String {
    let step = WIDTH / values.len() as f64;
    let points = values.iter().enumerate().map(|(index, value)| {
        format!(
            "{:.1},{:.1}",
            x + step * index as f64,
            y - HEIGHT * (value / most).min(1.0)
        )
    });
    let points: Vec<_> = points.collect();
    format!(
        r#"<polyline fill="none" stroke="{colour}" points="{}"/>"#,
        points.join(" ")
    )
}

fn axes((x, y): (f64, f64), name: &str, most: &str) -> String {
    format!(
        r#"<path d="M{x} {} V{y} h{WIDTH}" fill="none" stroke="black"/>
<text x="{x}" y="{}">{name}</text>
<text x="{}" y="{}" text-anchor="end">{most}</text>"#,
        y - HEIGHT,
        y - HEIGHT - 6.0,
        x - 4.0,
        y - HEIGHT + 10.0,
    )
}

fn main() {
    let dcqcn = Algorithm::Dcqcn(DcqcnConfig::new(Rate::from_mbit_s(100_000)));
    let width = 2.0 * (WIDTH + MARGIN) + 20.0;
    let height = 2.0 * (HEIGHT + MARGIN) + 10.0;
    println!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"
 font-family="sans-serif" font-size="12">
<!-- SPDX-License-Identifier: GPL-2.0 -->
<rect width="100%" height="100%" fill="white"/>"#
    );
    for (column, (name, algorithm)) in [("window alone", Algorithm::Window), ("DCQCN", dcqcn)]
        .into_iter()
        .enumerate()
    {
        let samples = simulate(algorithm);
        let x = MARGIN + column as f64 * (WIDTH + MARGIN);
        let (upper, lower) = ((x, HEIGHT + MARGIN / 2.0), (x, 2.0 * HEIGHT + 1.5 * MARGIN));
        println!(
            "{}",
            axes(
                upper,
                &format!("{name}: rate of four queue pairs"),
                "10 Gbit/s"
            )
        );
        for (flow, colour) in COLOURS.into_iter().enumerate() {
            // Bytes in two milliseconds, as Gbit/s.
            let rates: Vec<_> = samples
                .iter()
                .map(|sample| sample.accepted[flow] as f64 * 8.0 / 2e6)
                .collect();
            println!("{}", line(&rates, 10.0, upper, colour));
        }
        println!(
            "{}",
            axes(lower, &format!("{name}: queue, 0 to {TOTAL_MS} ms"), "2 ms")
        );
        let queue: Vec<_> = samples
            .iter()
            .map(|sample| sample.queue_bytes as f64 / 1.25e6)
            .collect();
        println!("{}", line(&queue, 2.0, lower, "black"));
    }
    println!("</svg>");
}
