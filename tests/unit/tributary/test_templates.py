from pathlib import Path

import jinja2
import pytest

from tributary.settings.templates import rendered


def test_html_is_escaped_and_other_text_is_not(tmp_path: Path) -> None:
    for name, text in (("a.html.j2", "&lt;\n"), ("a.conf.j2", "<\n")):
        (tmp_path / name).write_text("{% if true %}\n{{ given }}\n{% endif %}\n")
        assert rendered(tmp_path / name, given="<") == text
        with pytest.raises(jinja2.UndefinedError):
            rendered(tmp_path / name)


def test_a_template_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "page.html.j2").write_text("{{ given }}")
    compiled = []
    compile_it = jinja2.Environment.compile

    def counted(*given: object, **named: object) -> object:
        compiled.append(given)
        return compile_it(*given, **named)  # type: ignore[call-overload]

    monkeypatch.setattr(jinja2.Environment, "compile", counted)
    assert [rendered(tmp_path / "page.html.j2", given=each) for each in "ab"] == ["a", "b"]
    assert len(compiled) == 1
