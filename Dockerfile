# docker build -t pate .        # for a GPU: --build-arg TORCH_INDEX=
# docker run --rm -v pate-outputs:/home/owner/pate/outputs pate   # make run; the volume keeps what it writes
# docker run --rm -it -v "$PWD":/data pate bash                  # a shell with the commands, your folder as /data
FROM python:3.11-slim
RUN apt-get update -qq && apt-get install -qq --yes --no-install-recommends make git gcc libc6-dev && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home owner && install -d -o owner -g owner -m 700 /home/owner/pate /home/owner/pate/outputs
USER owner
WORKDIR /home/owner/pate
COPY --chown=owner . .
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN make setup TORCH_INDEX=$TORCH_INDEX && rm -rf ~/.cache
ENV PATH=/home/owner/pate/.venv/bin:$PATH
CMD ["make", "run"]
