// Keeps the page new: takes the parts that the server sends as they change, and puts in only what differs, so that nothing loses its focus or place.
"use strict";
(() => {
  const live = document.getElementById("live");
  const pause = document.getElementById("pause");
  const version = document.documentElement.dataset.assets;
  const silence = 25000; // ms: the server says something at least every 10 s
  let source = null, paused = false, ended = false, heard = 0, again = 0;

  function say(kind, text) {
    if (live.textContent !== text) live.textContent = text;
    live.className = "dot " + kind;
    document.body.classList.toggle("stale", kind === "bad");
  }

  // morph makes the children of have like those of want.
  function morph(have, want) {
    const kids = [...want.childNodes];
    while (have.childNodes.length > kids.length) have.lastChild.remove();
    kids.forEach((b, i) => {
      const a = have.childNodes[i];
      if (!a) have.append(document.importNode(b, true));
      else if (a.nodeType !== b.nodeType || a.nodeName !== b.nodeName) a.replaceWith(document.importNode(b, true));
      else if (a.nodeType === Node.ELEMENT_NODE) { attributes(a, b); morph(a, b); }
      else if (a.nodeValue !== b.nodeValue) a.nodeValue = b.nodeValue;
    });
  }

  function attributes(a, b) {
    for (const { name } of [...a.attributes]) {
      if (!b.hasAttribute(name) && !(a.nodeName === "DETAILS" && name === "open")) a.removeAttribute(name);
    }
    for (const { name, value } of b.attributes) if (a.getAttribute(name) !== value) a.setAttribute(name, value);
  }

  function show(parts) {
    for (const [id, html] of Object.entries(parts)) {
      const place = document.getElementById(id);
      if (place) morph(place, new DOMParser().parseFromString(html, "text/html").body);
    }
  }

  function close() {
    clearTimeout(again);
    if (source) source.close();
    source = null;
  }

  function retry(ms) {
    close();
    again = setTimeout(listen, ms);
  }

  function listen() {
    close();
    if (paused) return;
    const mine = source = new EventSource("events");
    heard = Date.now();
    mine.addEventListener("hello", (e) => {
      heard = Date.now();
      ended = false;
      if (JSON.parse(e.data).assets !== version) location.reload();
    });
    mine.addEventListener("parts", (e) => {
      if (paused || mine !== source) return;
      heard = Date.now();
      show(JSON.parse(e.data));
      say("ok", "Live");
    });
    mine.addEventListener("end", () => {
      ended = true;
      say("bad", "The worker has ended");
      retry(1000);
    });
    mine.onerror = () => {
      if (mine !== source) return;
      const refused = mine.readyState === EventSource.CLOSED; // it answered, but with another status than 200
      if (refused) say("off", "Not live: as many as may listen do");
      else if (!ended) say("bad", "No answer from the worker: as of the time below");
      retry(refused ? 15000 : 1000);
    };
  }

  // A connection that went silent without an end is tried anew. What is heard includes heartbeats only by way of their parts: a page that
  // changes every second is heard every second.
  setInterval(() => {
    if (!paused && source && Date.now() - heard > silence) {
      say("bad", "No answer from the worker: as of the time below");
      listen();
    }
  }, 5000);

  // Who looks at another tab need not be told; the places of those who listen are few.
  let unseen = 0;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(unseen);
    if (document.hidden) unseen = setTimeout(close, 60000);
    else if (!source) listen();
  });

  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Go on" : "Pause updates";
    if (paused) { close(); say("off", "Updates are paused"); } else { say("off", "Connecting"); listen(); }
  });
  document.getElementById("refresh").hidden = true;
  say("off", "Connecting");
  listen();
})();
