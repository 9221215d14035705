import { render } from "preact";
import { App } from "./app";
import { cleanAddress } from "./router";
import "./style/base.css";
import "./style/shell.css";
import "./style/content.css";
import "./style/graphs.css";
import "./style/dialogs.css";
import "./style/narrow.css";

cleanAddress();
addEventListener("hashchange", cleanAddress);

render(<App />, document.getElementById("app")!);
