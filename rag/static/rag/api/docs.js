// Swagger UI for the OpenAPI document that the page names. Requests with a session cookie carry
// the CSRF token.
(() => {
  const place = document.getElementById("swagger-ui");
  const token = () => (document.cookie.match(/(?:^|; )csrftoken=([^;]*)/) || [])[1];
  window.SwaggerUIBundle({
    url: place.dataset.url,
    domNode: place,
    deepLinking: true,
    validatorUrl: null,
    requestInterceptor: (request) => {
      const mine = new URL(request.url, location.href).origin === location.origin;
      if (mine && token()) request.headers["X-CSRFToken"] = token();
      return request;
    },
  });
})();
