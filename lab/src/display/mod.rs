//! A network's state for people: text screen, drawing and web page.

mod drawing;
mod layout;
mod page;
mod screen;

pub use drawing::svg;
pub use page::serve;
pub use screen::text;
