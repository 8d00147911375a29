// A page that was opened from a folder may not start a worker, and the search runs in one.
// There, and only there, a hidden frame takes the worker's place.
class IframeWorker extends EventTarget {
  constructor(url) {
    super();
    this.frame = document.createElement("iframe");
    this.frame.hidden = true;
    document.body.append(this.frame);
    const inside = this.frame.contentWindow;
    this.loaded = new Promise((loaded) => {
      this.frame.addEventListener("load", loaded);
    });
    addEventListener("message", (event) => {
      if (event.source !== inside) return;
      const copy = new MessageEvent("message", { data: event.data });
      this.dispatchEvent(copy);
      if (this.onmessage) this.onmessage(copy);
    });
    inside.document.open();
    inside.document.write(`<!doctype html><html lang="en"><title>Search</title><body><script>
      postMessage = (data) => parent.postMessage(data, "*");
      importScripts = (...urls) => urls.reduce((before, url) => before.then(() =>
        new Promise((loaded) => {
          const script = document.createElement("script");
          script.src = url;
          script.onload = loaded;
          document.body.append(script);
        })), Promise.resolve());
    <\/script><script src="${url}"><\/script></body></html>`);
    inside.document.close();
  }

  postMessage(data) {
    this.loaded.then(() => {
      const inside = this.frame.contentWindow; // none once the frame is gone
      const message = new MessageEvent("message", { data: structuredClone(data) });
      if (inside) inside.dispatchEvent(message);
    });
  }

  terminate() {
    this.frame.remove();
  }
}
if (location.protocol === "file:") window.Worker = IframeWorker;
