// Server-sent events from a byte stream. The browser's own EventSource cannot send the
// token, so the console reads the stream itself.

export interface Message {
    event: string;
    id: string;
    data: string;
}

/** Takes text as it arrives; returns the messages that are complete. */
export class EventParser {
    private rest = "";
    private event = "";
    private data: string[] = [];
    lastId = "";

    feed(text: string): Message[] {
        const messages: Message[] = [];
        this.rest += text;
        for (;;) {
            const end = /\r\n|\n|\r(?!$)/.exec(this.rest);
            if (!end) return messages;
            const line = this.rest.slice(0, end.index);
            this.rest = this.rest.slice(end.index + end[0].length);
            const message = this.line(line);
            if (message) messages.push(message);
        }
    }

    private line(line: string): Message | null {
        if (line === "") {
            const message =
                this.data.length > 0
                    ? { event: this.event || "message", id: this.lastId, data: this.data.join("\n") }
                    : null;
            this.event = "";
            this.data = [];
            return message;
        }
        const colon = line.indexOf(":");
        if (colon === 0) return null;
        const field = colon < 0 ? line : line.slice(0, colon);
        const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
        if (field === "data") this.data.push(value);
        else if (field === "event") this.event = value;
        else if (field === "id" && !value.includes("\0")) this.lastId = value;
        return null;
    }
}
