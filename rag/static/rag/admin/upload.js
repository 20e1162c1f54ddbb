// Upload: sends files one by one, each with its own progress and result.
"use strict";
(() => {
  const form = document.getElementById("desk-upload");
  const list = document.getElementById("desk-results");
  const input = form.querySelector('input[type="file"]');
  const drop = form.querySelector(".desk-drop");
  const words = form.dataset;
  const queue = [];
  // Unfold would listen too, and look for the text field that its own file fields have.
  input.hasChangeListener = true;
  let isSending = false;

  function line(name) {
    const item = document.createElement("li");
    item.className = "desk-card";
    const title = document.createElement("span");
    title.textContent = name;
    const note = document.createElement("span");
    note.className = "desk-note";
    note.textContent = words.waiting;
    item.append(title, note);
    list.append(item);
    return item;
  }

  function tell(item, result) {
    item.className = `desk-card desk-${result.outcome}`;
    const title = document.createElement(result.url ? "a" : "span");
    title.textContent = result.name;
    if (result.url) {
      title.href = result.url;
      title.className = "desk-link";
    }
    const note = document.createElement("span");
    note.className = "desk-note";
    note.textContent = result.text;
    item.replaceChildren(title, note);
    document.dispatchEvent(new CustomEvent("desk-heard", { detail: `${result.name}: ${result.text}` }));
    if (result.outcome === "taken" && words.progress) {
      const status = document.createElement("span");
      status.className = "desk-status";
      status.dataset.file = Number(result.id);
      status.dataset.busy = "1";
      item.append(status);
      document.body.dataset.progressUrl = words.progress;
      document.dispatchEvent(new Event("desk-busy"));
    }
  }

  function send(file, item) {
    return new Promise((resolve) => {
      const refuse = () => {
        tell(item, { name: file.name, outcome: "refused", text: words.failed });
        resolve();
      };
      const body = new FormData();
      body.append("csrfmiddlewaretoken", form.querySelector("[name=csrfmiddlewaretoken]").value);
      body.append("encoding", form.querySelector("[name=encoding]")?.value || "");
      body.append("files", file);
      const request = new XMLHttpRequest();
      request.open("POST", form.action);
      request.setRequestHeader("Accept", "application/json");
      const note = item.querySelector(".desk-note");
      request.upload.onprogress = (event) => {
        const percent = event.total ? Math.round((100 * event.loaded) / event.total) : 0;
        note.textContent = `${words.sending} ${percent} %`;
      };
      request.onerror = refuse;
      request.onload = () => {
        let results;
        try {
          results = JSON.parse(request.responseText).results;
        } catch (_) {
          return refuse();
        }
        if (!results || !results.length) return refuse();
        tell(item, results[0]);
        // A zip answers with a result for each file in it.
        for (const result of results.slice(1)) tell(line(result.name), result);
        resolve();
      };
      request.send(body);
    });
  }

  async function work() {
    if (isSending) return;
    isSending = true;
    while (queue.length) {
      const [file, item] = queue.shift();
      if (file.size > Number(words.limit)) {
        tell(item, { name: file.name, outcome: "refused", text: words.tooLarge });
      } else {
        await send(file, item);
      }
    }
    isSending = false;
  }

  function add(files) {
    for (const file of files) queue.push([file, line(file.name)]);
    work();
  }

  // Leaving would end what is on its way: the browser asks first.
  window.addEventListener("beforeunload", (event) => {
    if (isSending) event.preventDefault();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    add(input.files);
    input.value = "";
  });
  input.addEventListener("change", () => {
    add(input.files);
    input.value = "";
  });
  for (const kind of ["dragenter", "dragover"]) {
    drop.addEventListener(kind, (event) => {
      event.preventDefault();
      drop.classList.add("desk-over");
    });
  }
  for (const kind of ["dragleave", "drop"]) {
    drop.addEventListener(kind, () => drop.classList.remove("desk-over"));
  }
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    add(event.dataTransfer.files);
  });
})();
