"""Content security policy of all pages: scripts and styles from this server's files alone."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import cache_control
from unfold.settings import CONFIG_DEFAULTS
from unfold.utils import convert_color

# No inline scripts or styles, no eval; pictures within pages are QR codes and icons.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)


@cache_control(max_age=3600)
def theme_css(request: HttpRequest) -> HttpResponse:
    """Return the theme's colours as a file, which the theme itself would write into each page."""
    values = {
        f"color-{name}-{weight}": convert_color(value)
        for name, weights in CONFIG_DEFAULTS["COLORS"].items()
        for weight, value in weights.items()
    }
    lines = "".join(f"  --{name}: {value};\n" for name, value in values.items())
    # Twice, so that it goes before what the theme's own file says of the same element.
    return HttpResponse(f":root:root {{\n{lines}}}\n", content_type="text/css; charset=utf-8")
