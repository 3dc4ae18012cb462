//! A plot as PNG: the SVG, drawn at twice its size. Letters come from a font of the machine.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

/// Fonts that are looked for, in this order; any other is taken where none of them is there.
const FONTS: [&str; 5] = ["DejaVu Sans", "Liberation Sans", "Noto Sans", "Arial", "Helvetica"];
/// Pixels for each of the drawing's.
const SCALE: f32 = 2.0;

/// Draws SVG as PNG.
pub struct Painter(Options<'static>);

impl Painter {
    /// With the fonts of this machine; `None`: it has none, and there would be no letter.
    #[must_use]
    pub fn new() -> Option<Painter> {
        let mut fonts = fontdb::Database::new();
        fonts.load_system_fonts();
        let has =
            |name: &str| fonts.faces().any(|face| face.families.iter().any(|(family, _)| family == name));
        let chosen = FONTS.iter().find(|name| has(name)).map(|name| (*name).to_owned());
        let any = || Some(fonts.faces().next()?.families.first()?.0.clone());
        let family = chosen.or_else(any)?;
        fonts.set_sans_serif_family(&family);
        Some(Painter(Options { fontdb: Arc::new(fonts), font_family: family, ..Options::default() }))
    }

    /// The bytes of the PNG file.
    ///
    /// # Errors
    /// What is wrong with the SVG.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a picture of some thousand pixels
    pub fn png(&self, svg: &str) -> Result<Vec<u8>, String> {
        let tree = Tree::from_str(svg, &self.0).map_err(|error| error.to_string())?;
        let size = tree.size();
        let [width, height] = [size.width(), size.height()].map(|length| (length * SCALE).ceil() as u32);
        let mut picture = Pixmap::new(width, height).ok_or("a picture without size")?;
        resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut picture.as_mut());
        picture.encode_png().map_err(|error| error.to_string())
    }
}
