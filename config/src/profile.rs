#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    Plain,
    Roce,
}

const ROCE: &str = include_str!("profiles/roce.toml");

impl Profile {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Profile::Plain => "",
            Profile::Roce => ROCE,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::document::Layer;
    use crate::hardware::Hardware;
    use crate::reader::problem::Problems;

    #[test]
    fn built_in_profiles_have_no_problems() {
        let mut problems = Problems::default();
        for text in [Some(ROCE), Hardware::Ideal.text()].into_iter().flatten() {
            Layer::read(&toml_span::parse(text).unwrap(), &mut problems);
        }
        assert!(problems.finish("profile", ROCE).unwrap().warnings.is_empty());
    }
}
