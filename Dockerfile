# docker build -t pate . && docker run --rm pate            # make run
# docker run --rm -it -v "$PWD":/work pate bash              # a shell with the commands
FROM python:3.11-slim
RUN apt-get update -qq && apt-get install -qq --yes --no-install-recommends make git gcc libc6-dev && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home owner
USER owner
WORKDIR /home/owner/pate
COPY --chown=owner . .
RUN make setup && rm -rf ~/.cache
ENV PATH=/home/owner/pate/.venv/bin:$PATH
CMD ["make", "run"]
