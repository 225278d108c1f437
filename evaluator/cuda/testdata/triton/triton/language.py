constexpr = type("constexpr", (), {})
