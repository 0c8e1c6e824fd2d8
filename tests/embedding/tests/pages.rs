//! The pages say what the files say.

/// The worked example of the page about runtimes is the file that the tests run, without its header.
#[test]
fn the_runtime_on_the_page_is_the_one_that_is_tested() {
    let page = include_str!("../../../docs/runtimes.md");
    let file = include_str!("../src/timer_thread.rs");
    let code: String = file.lines().skip_while(|line| line.starts_with("//!")).flat_map(with_end).collect();
    assert!(
        page.contains(&format!("```rust\n{}```\n", code.trim_start_matches('\n'))),
        "docs/runtimes.md has another text of the example than tests/embedding/src/timer_thread.rs"
    );
}

fn with_end(line: &str) -> [&str; 2] {
    [line, "\n"]
}
