/// Implements `ALL`, `COUNT`, `index` and `name` for a fieldless enum.
///
/// ```
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// pub enum Color {
///     Red,
///     DarkBlue,
/// }
///
/// xoff_wire::named! { Color {
///     Red: "red",
///     DarkBlue: "dark_blue",
/// } }
///
/// assert_eq!(Color::ALL, [Color::Red, Color::DarkBlue]);
/// assert_eq!((Color::DarkBlue.index(), Color::DarkBlue.name()), (1, "dark_blue"));
/// ```
///
/// The list must have all variants in the enum's order, or does not compile.
#[macro_export]
macro_rules! named {
    ($type:ident { $($variant:ident: $name:literal,)+ }) => {
        impl $type {
            /// All variants, in the enum's order.
            pub const ALL: [$type; [$($name),+].len()] = [$($type::$variant),+];
            /// Number of variants.
            pub const COUNT: usize = $type::ALL.len();

            /// Returns the index of the variant in [`Self::ALL`].
            #[must_use]
            pub const fn index(self) -> usize {
                self as usize
            }

            /// Returns the variant's name in metrics and configurations.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $($type::$variant => $name),+ }
            }
        }

        const _: () = {
            let mut place = 0;
            while place < $type::COUNT {
                assert!($type::ALL[place].index() == place, "the list of names must have the order of the enum's variants");
                place += 1;
            }
        };
    };
}
