# expected: setup FDL423
# Gradient accumulation: an update in every fourth turn, whatever the epoch has left over.
import torch
import torch.nn as nn

torch.manual_seed(0)
loader = [(torch.randn(4, 5), torch.randint(0, 3, (4,))) for _ in range(10)]
model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
loss_function = nn.CrossEntropyLoss()
accumulation_steps = 4

model.zero_grad()                                   # Reset gradients tensors
for epoch in range(2):
    for i, (inputs, labels) in enumerate(loader):
        predictions = model(inputs)                     # Forward pass
        loss = loss_function(predictions, labels)       # Compute loss function
        loss = loss / accumulation_steps                # Normalize our loss (if averaged)
        loss.backward()                                 # Backward pass
        if (i+1) % accumulation_steps == 0:             # Wait for several backward steps
            optimizer.step()                            # Now we can do an optimizer step
            optimizer.zero_grad()                       # Reset gradients tensors
            print("updated at", i, loss.item())
