// Shows the OpenAPI document that the page names. Requests of people who are signed in carry the
// token against forgery.
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
