mod drawing;
mod layout;
mod page;
mod screen;

pub use drawing::svg;
pub use page::serve;
pub use screen::text;
